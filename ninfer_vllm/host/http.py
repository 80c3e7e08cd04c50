"""Constraints of HTTP requests: checked and lowered off the event loop, before anything is queued or streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from vllm.sampling_params import SamplingParams

from ninfer_vllm.errors import ConflictingConstraint, InvalidTools, NInferError
from ninfer_vllm.host.client_errors import as_client_error
from ninfer_vllm.host.http_errors import LocatedRefusal, RefusedStream
from ninfer_vllm.host.http_records import closing
from ninfer_vllm.host.preparation_time import note_ahead, timed
from ninfer_vllm.host.prepare import Preparer
from ninfer_vllm.host.prepared import REQUESTS, Prepared
from ninfer_vllm.host.requested import (
    asks_for_tool_constraint,
    body_of,
    budget_of,
    origin_of,
    refuse_call_of_no_tool,
    refuse_conflicting_fields,
    tool_place,
    tools_of,
)  # fmt: skip
from ninfer_vllm.host.requests import refuse_conflicts
from ninfer_vllm.host.turns import Continued

ERROR_EVENT = 'data: {"error"'

Result = TypeVar("Result")

_lowering_threads = ThreadPoolExecutor(2, thread_name_prefix="ninfer-lower")


async def prepare(request: Any, preparer: Preparer, *, own_parser: bool = True) -> Prepared:
    """Check and lower the constraint of an OpenAI request, and remember the result for the rest of its way.

    `own_parser` says whether the server reads tool calls with this product's parser.

    Errors: LocatedRefusal with the request field the fault lies in.
    """
    prepared = Prepared(preparer)
    try:
        prepared.body = body_of(request, preparer.options)
        tools = tools_of(request, prepared.body, preparer.options)
    except NInferError as error:
        raise LocatedRefusal(error, origin_of(request)) from None
    if own_parser:
        try:
            refuse_call_of_no_tool(request)
        except NInferError as error:
            # Tools of other kinds are the host's, where it serves them.
            if preparer.knows_tools:
                raise LocatedRefusal(error, "tool_choice", exact=True) from None
    if prepared.body is not None:
        prepared.enforced = True
        await _located(request, origin_of(request), preparer.lower, prepared.body)
    if tools is not None and _reads_tools(request, tools, preparer, own_parser=own_parser):
        prepared.tools = tools
        prepared.enforced = await _located(request, "tools", preparer.lower, tools) is not None
    if prepared.enforced:
        try:
            refuse_conflicting_fields(request)
        except NInferError as error:
            raise LocatedRefusal(error, None) from None
    REQUESTS.note(request, prepared)
    return prepared


async def find_existing(request: Any, prepared: Prepared, find: Callable[[], Continued]) -> None:
    """Find the content that a constrained turn continues, and check that it is a prefix of the language (CON).

    Errors: LocatedRefusal.
    """
    constraint = prepared.constraint
    if constraint is None:
        return
    preparer = prepared.preparer
    prepared.existing = await _located(request, "messages", lambda: preparer.existing(constraint, find()))


def add_budget(request: Any, params: SamplingParams) -> None:
    """Give the parameters the thinking budget that only a constrained Responses turn states beside its fields.

    Errors: LocatedRefusal.
    """
    try:
        budget = budget_of(request)
    except NInferError as error:
        raise LocatedRefusal(error, None) from None
    if budget is not None:
        params.thinking_token_budget = budget


def refuse_conflicting_params(prepared: Prepared, params: SamplingParams) -> None:
    """Refuse sampling parameters that contradict the request's constraint, before anything is streamed.

    Errors: LocatedRefusal.
    """
    try:
        refuse_conflicts(params, prepared.preparer.eos_ids)
    except NInferError as error:
        raise LocatedRefusal(error, None) from None


async def raise_failures(results: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Pass results on; a failed row becomes its own typed error instead of the host's internal one (ERR-5)."""
    async with closing(results):
        async for item in results:
            raise_failure_in(item[1] if isinstance(item, tuple) else item)
            yield item


def raise_failure_in(result: Any) -> None:
    """Raise the typed error of a failed sample, if there is one."""
    for output in result.outputs:
        if output.constraint_error is not None:
            raise as_client_error(output.constraint_error)


async def before_first_event(response: Any) -> Any:
    """A stream whose first event is known not to be an error; anything else as it is.

    Errors: RefusedStream with the body of the error event.
    """
    if not isinstance(response, AsyncGenerator):
        return response
    first = await anext(response)
    if first.startswith(ERROR_EVENT):
        await response.aclose()
        raise RefusedStream(json.loads(first[len("data: ") :]))
    return _chained(first, response)


async def _chained(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    async with closing(rest):
        yield first
        async for event in rest:
            yield event


async def _located(request: Any, origin: str | None, work: Callable[..., Result], *arguments: Any) -> Result:
    """Do work in a thread of its own; a refusal learns where in the request it lies.

    Errors: LocatedRefusal.
    """
    try:
        loop = asyncio.get_running_loop()
        result, seconds = await loop.run_in_executor(_lowering_threads, lambda: timed(work, *arguments))
    except NInferError as error:
        if origin == "tools":
            raise LocatedRefusal(error, _place_of_tools(request, error), exact=True) from None
        raise LocatedRefusal(error, origin) from None
    note_ahead(seconds)
    return result


def _place_of_tools(request: Any, error: NInferError) -> str:
    pointer = getattr(error, "pointer", None)
    if isinstance(error, InvalidTools) and not pointer:
        return "tool_choice"
    return tool_place(request, pointer or "")


def _reads_tools(request: Any, tools: Any, preparer: Preparer, *, own_parser: bool) -> bool:
    """Whether this product constrains and reads the request's calls; without it only free ones are the host's.

    Errors: LocatedRefusal.
    """
    if own_parser and preparer.knows_tools:
        return True
    if not asks_for_tool_constraint(tools, request):
        if own_parser and tools.policy.mode == "auto":
            _refuse_unknown_tools(request, tools, preparer)
        return False
    if not own_parser and preparer.knows_tools:
        error = ConflictingConstraint("tools", "constrained calls are read by the tool call parser `ninfer` only")
        raise LocatedRefusal(error, None)
    _refuse_unknown_tools(request, tools, preparer)
    return False


def _refuse_unknown_tools(request: Any, tools: Any, preparer: Preparer) -> None:
    try:
        preparer.frontend.read_tools(tools)
    except NInferError as error:
        raise LocatedRefusal(error, None) from None
