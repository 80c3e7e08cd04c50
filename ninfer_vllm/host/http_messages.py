"""The Anthropic Messages protocol: its paths, its error envelope, its records (JSD-8, ERR-2, OBS-2).

The host turns such a request into a chat, so what preparation finds out names the chat's fields; here they are named as
the client wrote them.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import JSONResponse
from vllm.entrypoints.anthropic.protocol import AnthropicMessagesResponse
from vllm.entrypoints.serve.engine.protocol import ErrorInfo, ErrorResponse

from ninfer_vllm.errors import NInferError
from ninfer_vllm.host.http_errors import LocatedRefusal, RefusedStream, openai_body, param_of
from ninfer_vllm.host.http_records import closing

PATHS = (
    (re.compile(r"^tools/([0-9]+)/function/parameters(?=/|$)"), r"tools/\1/input_schema"),
    (re.compile(r"^tools/([0-9]+)/function(?=/|$)"), r"tools/\1"),
    (re.compile(r"^response_format/json_schema/schema(?=/|$)"), "output_config/format/schema"),
    (re.compile(r"^response_format(?=/|$)"), "output_config/format"),
    (re.compile(r"^stop$"), "stop_sequences"),
    (re.compile(r"^thinking_token_budget$"), "thinking/budget_tokens"),
    (re.compile(r"^parallel_tool_calls$"), "tool_choice/disable_parallel_tool_use"),
    (re.compile(r"^continue_final_message$"), "messages"),
)
"""Fields of a chat, as Messages names them."""

CHAT_ERROR = 'data: {"error"'


class MessagesErrorResponse(ErrorResponse):
    """A refusal of ours on its way through the host's route; `envelope` is the protocol's body, `status` its code."""

    envelope: dict[str, Any]
    status: int


class RecordedMessage(AnthropicMessagesResponse):
    """A response with its record."""

    ninfer: dict[str, Any]


def refusal_of(fault: Exception) -> MessagesErrorResponse | None:
    """Our own faults as the host's error response, None for any other exception."""
    if isinstance(fault, LocatedRefusal):
        return _refusal(openai_body(fault.error, _path(fault.param)), int(fault.error.status))
    if isinstance(fault, RefusedStream):
        return _refusal({"error": _renamed(fault.body["error"])}, fault.status)
    if isinstance(fault, NInferError):
        return _refusal(openai_body(fault, _path(param_of(fault, None))), int(fault.status))
    return None


def answer_of(response: ErrorResponse) -> JSONResponse | None:
    """The HTTP answer of one of our refusals, None for the host's own error responses."""
    if not isinstance(response, MessagesErrorResponse):
        return None
    return JSONResponse(response.envelope, status_code=response.status)


def continue_prefill(chat: Any, messages: Any) -> None:
    """Let a final assistant message be continued, as the protocol has it, where the chat may be constrained (CON-1)."""
    final = messages[-1] if messages else None
    if final is not None and final.role == "assistant" and (chat.response_format is not None or chat.tools):
        chat.add_generation_prompt = False
        chat.continue_final_message = True


def with_record(message: AnthropicMessagesResponse, chat: Any) -> AnthropicMessagesResponse:
    """The same message with the record that the chat response carries."""
    record = (chat.model_extra or {}).get("ninfer")
    if record is None:
        return message
    return RecordedMessage.model_construct(**dict(message), ninfer=record)


async def convert(chat_events: AsyncIterator[str], converter: Any) -> AsyncIterator[str]:
    """The host's conversion of a chat stream, with the record in the closing event and our errors as error events."""
    seen: dict[str, Any] = {}

    async def until_error() -> AsyncIterator[str]:
        async with closing(chat_events):
            async for event in chat_events:
                if event.startswith(CHAT_ERROR):
                    seen["error"] = json.loads(event[len("data: ") :])["error"]
                    return
                if '"ninfer"' in event and event.startswith("data: {"):
                    seen["record"] = json.loads(event[len("data: ") :]).get("ninfer")
                yield event

    async for event in converter(until_error()):
        yield _with_record(event, seen["record"]) if seen.get("record") and _closes(event) else event
    if "error" in seen:
        body = {"type": "error", "error": _renamed(seen["error"])}
        yield f"event: error\ndata: {json.dumps(body, ensure_ascii=False)}\n\n"


def _refusal(body: dict[str, Any], status: int) -> MessagesErrorResponse:
    info = ErrorInfo(message=body["error"]["message"], type=body["error"]["type"], code=status)
    return MessagesErrorResponse(error=info, envelope={"type": "error", **body}, status=status)


def _renamed(error: dict[str, Any]) -> dict[str, Any]:
    """An error of a chat stream, with its place as this protocol names it."""
    return {**error, "param": _path(error.get("param"))}


def _path(param: str | None) -> str | None:
    for pattern, name in PATHS:
        if param is not None and pattern.search(param):
            return pattern.sub(name, param)
    return param


def _closes(event: str) -> bool:
    return event.startswith("event: message_delta\n")


def _with_record(event: str, record: dict[str, Any]) -> str:
    head, _, data = event.partition("data: ")
    body = {**json.loads(data), "ninfer": record}
    return f"{head}data: {json.dumps(body, ensure_ascii=False)}\n\n"
