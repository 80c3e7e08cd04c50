"""Chat outputs of the Python API as messages: reasoning, content and tool calls, as the server publishes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ninfer_vllm.constraint import ToolConstraint
from ninfer_vllm.errors import InvalidOption
from ninfer_vllm.host.events import CallFinished, ContentDelta, Event, ReasoningDelta
from ninfer_vllm.host.output_reader import OutputReader
from ninfer_vllm.host.prepared import Prepared

if TYPE_CHECKING:
    from vllm import LLM
    from vllm.outputs import RequestOutput

    from ninfer_vllm.host.prepare import Preparer


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One complete call; `arguments` is the JSON text of an object."""

    name: str
    arguments: str

    @property
    def value(self) -> dict[str, Any]:
        """The arguments as an object."""
        value: dict[str, Any] = json.loads(self.arguments)
        return value


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """What one output of a chat turn says."""

    reasoning: str | None
    content: str | None
    tool_calls: tuple[ToolCall, ...]


def read_chat(llm: LLM, result: RequestOutput, tools: ToolConstraint | None = None) -> list[ChatMessage]:
    """The messages of a constrained `LLM.chat` result, one a sample; `tools` are those of its constraint, if any.

    Errors: InvalidOption where the engine did not select the plugin; ConstraintError for tools that are refused;
    UnreadableToolCall.
    """
    preparer: Preparer | None = getattr(llm.llm_engine.input_processor, "ninfer", None)
    if preparer is None:
        raise InvalidOption("plugin", "an engine that did not select it")
    prepared = Prepared(preparer, tools=tools, enforced=True)
    messages = []
    for output in result.outputs:
        reader = OutputReader.of(prepared, preparer.frontend, llm.get_tokenizer(), result.prompt_token_ids or ())
        messages.append(_message(reader.read(output.text, output.token_ids, last=True)))
    return messages


def _message(events: list[Event]) -> ChatMessage:
    calls = tuple(ToolCall(event.name, event.arguments) for event in events if isinstance(event, CallFinished))
    reasoning = [event.text for event in events if isinstance(event, ReasoningDelta)]
    content = [event.text for event in events if isinstance(event, ContentDelta)]
    return ChatMessage("".join(reasoning) if reasoning else None, "".join(content) if content else None, calls)
