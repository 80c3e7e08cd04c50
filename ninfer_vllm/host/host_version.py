"""Where the supported host versions differ in what we touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import vllm
from vllm.outputs import RequestError

if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler

MINOR = tuple(int(part) for part in vllm.__version__.split("+")[0].split(".")[:2])

FIXED_MASK_STRIDE = MINOR >= (0, 33)
"""From 0.33 on every constrained request owns as many mask rows as a full set of drafts needs."""


def queue_as_failed(scheduler: Scheduler, request_id: str, message: str) -> None:
    """Let the host finish a request as an error in its next update."""
    failed: Any = scheduler.grammar_compile_error_reqs
    if isinstance(failed, dict):
        failed[request_id] = RequestError(code="validation_error", message=message)
    else:
        failed.add(request_id)


def drop_host_error(output: Any) -> None:
    """Remove the host's own error from an output that carries ours (0.33 raises it instead of returning the output)."""
    if "error" in type(output).__struct_fields__:
        output.error = None
