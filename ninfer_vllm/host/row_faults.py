"""Faults of rows on their way from the worker to the engine core: typed errors of one request each (ERR-4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.v1.outputs import ModelRunnerOutput

from ninfer_vllm.errors import ConstraintDeadEnd, NonFiniteLogits, RowFailure
from ninfer_vllm.host.worker_step import RowFaults
from ninfer_vllm.sampling.faults import RowFault


@dataclass(frozen=True, slots=True)
class ReportedFault:
    """What the worker met instead of a token."""

    kind: str
    num_tokens: int
    """Tokens of the step in front of it."""

    def as_error(self, output_tokens: int) -> RowFailure:
        """The request's error; `output_tokens` it had before the step."""
        error = NonFiniteLogits if RowFault(self.kind) is RowFault.NON_FINITE else ConstraintDeadEnd
        return error(output_tokens + self.num_tokens)


def report_faults(output: Any, faults: RowFaults) -> None:
    """Put a step's faults on the worker's output, in its synchronous or its asynchronous form."""
    inner: Any = output if isinstance(output, ModelRunnerOutput) else output._model_runner_output
    inner.ninfer_row_faults = faults


def reported_fault(output: Any, request_id: str) -> ReportedFault | None:
    """The fault of a request's row, if the worker met one."""
    faults = output.ninfer_row_faults
    return ReportedFault(*faults[request_id]) if faults is not None and request_id in faults else None
