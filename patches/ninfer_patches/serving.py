"""The OpenAI endpoints: constraints before the status line, records and typed failures in responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any

from ninfer_vllm.errors import NInferError
from ninfer_vllm.host.http import (
    add_budget,
    before_first_event,
    prepare,
    raise_failure_in,
    raise_failures,
    refuse_conflicting_params,
)  # fmt: skip
from ninfer_vllm.host.http_errors import add_error_handlers, stream_event
from ninfer_vllm.host.http_records import (
    Records,
    add_to_event,
    add_to_response,
    collect,
    records_of,
    state_reasons,
)  # fmt: skip
from ninfer_vllm.host.prepare import Preparer
from ninfer_vllm.host.prepared import REQUESTS
from ninfer_vllm.host.publication import reads_with_own_parser
from ninfer_vllm.host.requests import CHAT_TURN, PAYLOAD_KEY


def to_sampling_params(original: Callable[..., Any]) -> Callable[..., Any]:
    """Give a chat turn's parameters the constraint that was prepared for it, or refuse what contradicts one."""

    @wraps(original)
    def convert(self: Any, *args: Any, **kwargs: Any) -> Any:
        params = original(self, *args, **kwargs)
        params.extra_args = {**(params.extra_args or {}), PAYLOAD_KEY: CHAT_TURN}
        prepared = REQUESTS.of(self)
        if prepared is not None:
            params.structured_outputs = prepared.constraint
            if prepared.enforced:
                add_budget(self, params)
                refuse_conflicting_params(prepared, params)
        return params

    return convert


def create_with_constraint(original: Callable[..., Any]) -> Callable[..., Any]:
    """Prepare the constraint first; of a stream, answer with a status only when its first event is known."""

    @wraps(original)
    async def create(self: Any, request: Any, raw_request: Any = None) -> Any:
        preparer: Preparer | None = self.input_processor.ninfer
        if preparer is None:
            return await original(self, request, raw_request)
        prepared = await prepare(request, preparer, own_parser=reads_with_own_parser(self))
        response = await original(self, request, raw_request)
        return await before_first_event(response) if prepared.enforced and request.stream else response

    return create


def full_chat_response(original: Callable[..., Any]) -> Callable[..., Any]:
    """Attach records to a whole chat response, and let choices that were cut say so."""

    @wraps(original)
    async def generate(self: Any, request: Any, results: Any, *args: Any, **kwargs: Any) -> Any:
        prepared = REQUESTS.of(request)
        if prepared is None:
            return await original(self, request, results, *args, **kwargs)
        watched = raise_failures(collect(results, prepared.records, 1, prepared.reasons))
        response = await original(self, request, watched, *args, **kwargs)
        if prepared.tools is not None:
            response = state_reasons(response, prepared.reasons)
        return add_to_response(response, prepared.records)

    return generate


def streamed_chat_response(original: Callable[..., Any]) -> Callable[..., Any]:
    """Attach records to the last chunk of a chat stream."""

    @wraps(original)
    async def generate(self: Any, request: Any, results: Any, *args: Any, **kwargs: Any) -> AsyncIterator[str]:
        prepared = REQUESTS.of(request)
        records: Records = {} if prepared is None else prepared.records
        enforced = prepared is not None and prepared.enforced
        watched = raise_failures(collect(results, records, samples=1)) if enforced else results
        async for event in original(self, request, watched, *args, **kwargs):
            yield add_to_event(event, records)

    return generate


def full_completion_response(original: Callable[..., Any]) -> Callable[..., Any]:
    """Attach records to a whole completion response."""

    @wraps(original)
    def convert(self: Any, results: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        for result in results:
            raise_failure_in(result)
        response = original(self, results, request, *args, **kwargs)
        return add_to_response(response, records_of(results))

    return convert


def streamed_completion_response(original: Callable[..., Any]) -> Callable[..., Any]:
    """Attach records to the last chunk of each choice of a completion stream."""

    @wraps(original)
    async def generate(
        self: Any, request: Any, inputs: Any, results: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[str]:
        prepared = REQUESTS.of(request)
        records: Records = {}
        enforced = prepared is not None and prepared.enforced
        watched = raise_failures(collect(results, records, samples=request.n or 1)) if enforced else results
        async for event in original(self, request, inputs, watched, *args, **kwargs):
            yield add_to_event(event, records)

    return generate


def streaming_error(original: Callable[..., str]) -> Callable[..., str]:
    """Our errors as events with code and place."""

    @wraps(original)
    def create(self: Any, message: Any, *args: Any, **kwargs: Any) -> str:
        if isinstance(message, NInferError):
            return stream_event(message)
        return original(self, message, *args, **kwargs)

    return create


def init_exception_handler(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Add the handlers of our errors to the host's."""

    @wraps(original)
    def init(app: Any) -> None:
        original(app)
        add_error_handlers(app)

    return init
