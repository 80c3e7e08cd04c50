"""Records and row failures on their way from the engine core to `CompletionOutput`.

The host's request states and outputs are `Any` here: the members we add to them are none of their declared ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger

from ninfer_vllm.errors import rebuilt
from ninfer_vllm.host.metrics import metrics
from ninfer_vllm.host.metrics_facts import Facts
from ninfer_vllm.host.requests import PAYLOAD_KEY
from ninfer_vllm.record import ConstraintRecord

if TYPE_CHECKING:
    from vllm.v1.engine import EngineCoreOutput

logger = init_logger("vllm.ninfer")


def take_records(processor: Any, outputs: list[EngineCoreOutput]) -> None:
    """Count ended samples, and move their records from the host's carrier field to their request states."""
    for output in outputs:
        carried = _take(output)
        if carried is None:
            continue
        logger.debug("Finished constrained request %s: %s", output.request_id, carried["record"])
        metrics().settle(ConstraintRecord(**carried["record"]), Facts.from_wire(carried["facts"]), output.finish_reason)
        state = processor.request_states.get(output.request_id)
        if state is not None:
            state.ninfer_result = carried


def publish_record(state: Any, output: Any) -> None:
    """Put the record (and the row's error) of an ended sample on its output."""
    carried = state.ninfer_result
    if carried is None or output.finish_reason is None:
        return
    output.constraint = ConstraintRecord(**carried["record"])
    if carried["error"] is not None:
        output.constraint_error = rebuilt(*carried["error"])


def carry_records(merged: Any, added: Any) -> None:
    """Keep the records of outputs that the host merged into a result whose consumer was slower than the engine."""
    ended = {output.index: output for output in added.outputs if output.constraint is not None}
    for output in merged.outputs:
        if output.index in ended:
            output.constraint = ended[output.index].constraint
            output.constraint_error = ended[output.index].constraint_error


def _take(output: EngineCoreOutput) -> dict[str, Any] | None:
    carrier = output.kv_transfer_params
    if not carrier or PAYLOAD_KEY not in carrier:
        return None
    rest = {key: value for key, value in carrier.items() if key != PAYLOAD_KEY}
    output.kv_transfer_params = rest or None
    carried: dict[str, Any] = carrier[PAYLOAD_KEY]
    return carried
