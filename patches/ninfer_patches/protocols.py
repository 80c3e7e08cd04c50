"""The Responses and Messages protocols: refusals before anything is queued, records, typed failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any

from ninfer_vllm.host.allowed_tools import keep_allowed_tools
from ninfer_vllm.host.http import prepare
from ninfer_vllm.host.http_messages import answer_of, continue_prefill, convert, refusal_of, with_record
from ninfer_vllm.host.http_responses import add_record, failing_as_event, watch_contexts
from ninfer_vllm.host.prepare import Preparer
from ninfer_vllm.host.prepared import REQUESTS
from ninfer_vllm.host.publication import reads_with_own_parser


def create_response(original: Callable[..., Any]) -> Callable[..., Any]:
    """Prepare the constraint before anything else."""

    @wraps(original)
    async def create(self: Any, request: Any, raw_request: Any = None) -> Any:
        preparer: Preparer | None = self.input_processor.ninfer
        if preparer is not None:
            await prepare(request, preparer, own_parser=reads_with_own_parser(self))
        return await original(self, request, raw_request)

    return create


def full_response(original: Callable[..., Any]) -> Callable[..., Any]:
    """Attach the record to a whole response."""

    @wraps(original)
    async def generate(self: Any, request: Any, params: Any, contexts: Any, *args: Any, **kwargs: Any) -> Any:
        prepared = REQUESTS.of(request)
        if prepared is None or not prepared.enforced:
            return await original(self, request, params, contexts, *args, **kwargs)
        watched = watch_contexts(contexts, prepared)
        return add_record(await original(self, request, params, watched, *args, **kwargs), prepared)

    return generate


def streamed_response(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the record for the closing event; end a failed row's stream with an error event."""

    @wraps(original)
    async def generate(
        self: Any, request: Any, params: Any, contexts: Any, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        prepared = REQUESTS.of(request)
        if prepared is None or not prepared.enforced:
            async for event in original(self, request, params, contexts, *args, **kwargs):
                yield event
            return
        watched = watch_contexts(contexts, prepared)
        async for event in failing_as_event(original(self, request, params, watched, *args, **kwargs)):
            yield event

    return generate


def create_message(original: Callable[..., Any]) -> Callable[..., Any]:
    """Our refusals as error responses, before the host's route makes internal errors of them."""

    @wraps(original)
    async def create(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await original(self, *args, **kwargs)
        except Exception as fault:
            refusal = refusal_of(fault)
            if refusal is None:
                raise
            return refusal

    return create


def to_chat_request(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let a final assistant message be continued."""

    @wraps(original)
    def convert_request(cls: Any, message_request: Any, *args: Any, **kwargs: Any) -> Any:
        chat = original(cls, message_request, *args, **kwargs)
        continue_prefill(chat, message_request.messages)
        return chat

    return convert_request


def full_message(original: Callable[..., Any]) -> Callable[..., Any]:
    """Carry the record over from the chat response."""

    @wraps(original)
    def convert_response(self: Any, chat: Any) -> Any:
        return with_record(original(self, chat), chat)

    return convert_response


def streamed_message(original: Callable[..., Any]) -> Callable[..., Any]:
    """Carry the record and typed errors over from the chat stream."""

    @wraps(original)
    async def convert_stream(self: Any, chat_events: Any) -> AsyncIterator[str]:
        async for event in convert(chat_events, lambda events: original(self, events)):
            yield event

    return convert_stream


def message_error(original: Callable[..., Any]) -> Callable[..., Any]:
    """Our refusals in the protocol's envelope with code and place."""

    @wraps(original)
    def translate(response: Any) -> Any:
        return answer_of(response) or original(response)

    return translate


def with_allowed_tools(original: Any) -> Any:
    """The same request class, accepting the choice `allowed_tools`."""
    return keep_allowed_tools(original)
