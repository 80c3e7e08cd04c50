"""Around the host scheduler's update: preview, row failures, records (ERR-4, ENG-3, MSK-6).

Before the host's own update every constrained row's sampled tokens are previewed. A row that really reached a dead end
loses all tokens of this step and is queued as failed; the host then frees its blocks and finishes it as an error, while
every other row commits. After the update no preview is left, and ended requests carry their record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_vllm.errors import ConstraintDeadEnd, MatcherInconsistency, NInferError
from ninfer_vllm.host.host_version import queue_as_failed
from ninfer_vllm.host.manager import SessionManager, compile_fault_of, grammar_of, params_of
from ninfer_vllm.host.metrics_settlement import publish_ended
from ninfer_vllm.host.restrictions import num_permitted
from ninfer_vllm.host.row_faults import reported_fault
from ninfer_vllm.session.states import State

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine import EngineCoreOutputs
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.request import Request


def before_update(scheduler: Scheduler, scheduled: SchedulerOutput, output: ModelRunnerOutput) -> None:
    """Preview the step's tokens of every constrained row and take failed rows out."""
    manager = scheduler.structured_output_manager
    assert isinstance(manager, SessionManager)
    for request_id in list(scheduler.grammar_compile_error_reqs):
        _fail(manager, request_id, compile_fault_of(scheduler.requests[request_id]))
    for request_id in scheduled.num_scheduled_tokens:
        request = scheduler.requests.get(request_id)
        if request is not None and request.use_structured_output and not request.is_finished():
            _preview_row(manager, scheduler, request, output)


def after_update(scheduler: Scheduler, outputs: dict[int, EngineCoreOutputs]) -> None:
    """Discard what was not committed and attach records to ended requests."""
    manager = scheduler.structured_output_manager
    assert isinstance(manager, SessionManager)
    # A copy: requests are added by another thread meanwhile.
    for session in list(manager.sessions.values()):
        if session.state is State.PREVIEWING:
            session.discard()
    if manager.released:
        ended, manager.released = manager.released, {}
        publish_ended(ended, manager.compiler_observed, outputs)


def _preview_row(manager: SessionManager, scheduler: Scheduler, request: Request, output: ModelRunnerOutput) -> None:
    index = output.req_id_to_index.get(request.request_id)
    if index is None or not output.sampled_token_ids or _is_dropped(request):
        return
    tokens = output.sampled_token_ids[index]
    if not tokens:
        return
    # Tokens behind the request's own end were not reached, and neither was a fault among them.
    del tokens[_num_until_stop(scheduler, request, tokens) :]
    error = (
        manager.step_faults.pop(request.request_id, None)
        or _dead_end_reached(manager, request, tokens)
        or _fault_reached(request, tokens, output)
        or _advance(request, tokens)
    )
    if error is None:
        return
    output.sampled_token_ids[index] = []
    output.prompt_logprobs_dict.pop(request.request_id, None)
    _fail(manager, request.request_id, error)
    queue_as_failed(scheduler, request.request_id, str(error))


def _is_dropped(request: Request) -> bool:
    """Whether the host throws this output away because the request was preempted meanwhile."""
    return request.num_stale_output_tokens > 0 and request.drop_stale_output


def _num_until_stop(scheduler: Scheduler, request: Request, tokens: list[int]) -> int:
    """How many of the sampled tokens the host takes before it ends the request; at least one."""
    params, before = params_of(request), request.num_output_tokens
    room = min(request.max_tokens - before, scheduler.max_model_len - request.num_tokens)
    stops = params.stop_token_ids or ()
    for at, token in enumerate(tokens[:room], start=1):
        if token in stops and before + at >= params.min_tokens:
            return at
    return max(room, 1)


def _dead_end_reached(manager: SessionManager, request: Request, tokens: list[int]) -> NInferError | None:
    """The error of a row that was sampled where its mask had no legal token."""
    rows = manager.step_rows.pop(request.request_id, None)
    dead_end = None if rows is None else rows.dead_end
    if dead_end is None or len(tokens) <= dead_end:
        return None
    return ConstraintDeadEnd(request.num_output_tokens + dead_end)


def _fault_reached(request: Request, tokens: list[int], output: ModelRunnerOutput) -> NInferError | None:
    """The error of a row that the worker could not sample, unless the row had ended before."""
    fault = reported_fault(output, request.request_id)
    if fault is None or fault.num_tokens >= len(tokens):
        return None
    session = grammar_of(request).session
    session.preview(tokens[: fault.num_tokens])
    ended = session.terminated
    session.discard()
    if ended:
        del tokens[fault.num_tokens :]
        return None
    return fault.as_error(request.num_output_tokens)


def _advance(request: Request, tokens: list[int]) -> NInferError | None:
    """Preview the tokens; the row's error, if it has one."""
    session = grammar_of(request).session
    permitted = num_permitted(params_of(request), request.output_token_ids, tokens)
    legal = session.preview(tokens)
    if permitted < legal:
        return ConstraintDeadEnd(request.num_output_tokens + permitted)
    if legal == len(tokens):
        return None
    if session.terminated:
        del tokens[legal:]
        return None
    if _has_own_restrictions(request):
        return ConstraintDeadEnd(request.num_output_tokens + legal)
    return MatcherInconsistency(
        f"token {tokens[legal]} was sampled outside its mask after {request.num_output_tokens + legal} output tokens"
    )


def _has_own_restrictions(request: Request) -> bool:
    """Whether the request itself can empty a row's candidates (REQ-8)."""
    params = params_of(request)
    return bool(params.allowed_token_ids or params.bad_words or params.logit_bias)


def _fail(manager: SessionManager, request_id: str, error: NInferError) -> None:
    session = manager.sessions.get(request_id)
    if session is not None and session.state not in (State.FAILED, State.FINISHED):
        session.fail(error)
