"""Constraints of HTTP requests: checked and lowered off the event loop, before anything is queued or streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConflictingConstraint, NInferError
from ninfer_vllm.host.client_errors import as_client_error
from ninfer_vllm.host.http_errors import LocatedRefusal, RefusedStream
from ninfer_vllm.host.http_records import closing
from ninfer_vllm.host.prepare import Preparer
from ninfer_vllm.host.requests import from_structured_outputs

ERROR_EVENT = 'data: {"error"'

REMOVED_FIELDS = {
    "guided_json": "structured_outputs.json",
    "guided_regex": "structured_outputs.regex",
    "guided_choice": "structured_outputs.choice",
    "guided_grammar": "structured_outputs.grammar",
    "guided_decoding_backend": "structured_outputs",
    "guided_whitespace_pattern": "structured_outputs",
}

_lowering_threads = ThreadPoolExecutor(2, thread_name_prefix="ninfer-lower")


async def prepare(request: Any, preparer: Preparer) -> bool:
    """Check and lower the constraint of an OpenAI chat or completion request; whether it has one.

    Errors: LocatedRefusal with the request field the fault lies in.
    """
    origin = origin_of(request)
    try:
        _refuse_removed_fields(request)
        constraint = _constraint_of(request, preparer)
        if constraint is None:
            return False
        _refuse_conflicting_fields(request)
        await asyncio.get_running_loop().run_in_executor(_lowering_threads, preparer.lower, constraint)
    except NInferError as error:
        raise LocatedRefusal(error, origin) from None
    return True


def is_constrained(request: Any) -> bool:
    """Whether an OpenAI chat or completion request states a body constraint."""
    return origin_of(request) is not None


def origin_of(request: Any) -> str | None:
    """The request field a constraint comes from, as the first part of an error's path (JSD-8)."""
    form = request.response_format
    if form is not None and form.type == "json_schema":
        return "response_format/json_schema/schema"
    if form is not None and form.type != "text":
        return "response_format"
    given = request.structured_outputs
    if given is None:
        return None
    members = [name for name in ("json", "regex", "choice", "grammar") if getattr(given, name) is not None]
    return f"structured_outputs/{members[0]}" if len(members) == 1 else "structured_outputs"


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


def _constraint_of(request: Any, preparer: Preparer) -> OutputConstraint | None:
    form = request.response_format
    if form is not None and form.type != "text" and request.structured_outputs is not None:
        raise ConflictingConstraint(
            "structured_outputs", "response_format already states a constraint; give one of them"
        )
    given = request.extract_structured_outputs()
    return None if given is None else from_structured_outputs(given, preparer.options.unknown_schema_keywords)


def _refuse_removed_fields(request: Any) -> None:
    for name in request.model_extra or ():
        if name in REMOVED_FIELDS:
            raise ConflictingConstraint(name, f"this field does not exist; use {REMOVED_FIELDS[name]}")


def _refuse_conflicting_fields(request: Any) -> None:
    if request.use_beam_search:
        raise ConflictingConstraint("use_beam_search", "beam search cannot be combined with a constraint")
    for field, refused in _chat_conflicts(request):
        if refused:
            raise ConflictingConstraint(field, "cannot be combined with a body constraint")


def _chat_conflicts(request: Any) -> list[tuple[str, bool]]:
    fields = type(request).model_fields
    if "continue_final_message" not in fields:
        return [("echo", bool(request.echo)), ("suffix", request.suffix is not None)]
    has_tools = bool(request.tools) and request.tool_choice != "none"
    special = "skip_special_tokens" in request.model_fields_set and not request.skip_special_tokens
    return [
        ("skip_special_tokens", special),
        ("continue_final_message", request.continue_final_message),
        ("tools", has_tools),
        ("echo", bool(request.echo)),
    ]
