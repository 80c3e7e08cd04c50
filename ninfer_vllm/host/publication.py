"""The parser that the host publishes with: reasoning, content and tool calls out of one output (THK-8, TOOL-10).

Theory of operation: the host makes one parser a sample and asks it either once, with the whole output, or with every
piece. Both ways end in the same reader. Under a constraint that reader gets token ids, which are what the constraint
spoke about; a free output is read from the host's text, which is what stop strings and the like have shaped. What the
host's own parsers can be asked for and this one does not do, a structural tag for instance, is left to the constraint
that was prepared before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.entrypoints.generate.base.protocol import DeltaFunctionCall, DeltaMessage, DeltaToolCall, FunctionCall
from vllm.parser.abstract_parser import Parser
from vllm.renderers.chat_utils import make_tool_call_id

from ninfer_vllm.errors import UnsupportedTemplate
from ninfer_vllm.host.events import ArgumentsDelta, CallFinished, CallStarted, ContentDelta, Event, ReasoningDelta
from ninfer_vllm.host.frontend import Frontend, frontend_for
from ninfer_vllm.host.host_parsers import NAME, NinferReasoningParser, NinferToolParser
from ninfer_vllm.host.output_reader import OutputReader
from ninfer_vllm.host.prepared import REQUESTS


class NinferParser(Parser):
    """Publishes one sample; `frontend` is the model's family."""

    frontend: Frontend

    def __init__(self, tokenizer: Any, tools: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, tools, *args, **kwargs)
        self._prompt: Sequence[int] = ()
        self._reader: OutputReader | None = None

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """Note the rendered prompt."""
        self._prompt = prompt_token_ids

    def is_reasoning_end(self, input_ids: list[int]) -> bool:
        """Whether output behind this prompt starts with content."""
        return self.frontend.start_frame(input_ids) == "content"

    def adjust_request(self, request: Any) -> Any:
        """The request as it is; its constraint was prepared before it was rendered."""
        return request

    def parse(
        self,
        model_output: str,
        request: Any,
        enable_auto_tools: bool = False,  # noqa: FBT001, FBT002 - the host's signature
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[FunctionCall] | None]:
        """Reasoning, content and calls of a whole output."""
        reader = self._reader_of(request)
        events = reader.read(model_output, model_output_token_ids, last=True)
        calls = [
            FunctionCall(name=event.name, arguments=event.arguments)
            for event in events
            if isinstance(event, CallFinished)
        ]
        reasoning = _text(events, ReasoningDelta)
        content = _text(events, ContentDelta)
        if content is None and not calls and reader.is_behind_thinking:
            content = ""
        return reasoning, content, calls

    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: Any,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> DeltaMessage | None:
        """What more of the output publishes."""
        if prompt_token_ids is not None and self._reader is None:
            self._prompt = prompt_token_ids
        events = self._reader_of(request).read(delta_text, delta_token_ids, last=finished)
        message = DeltaMessage()
        reasoning, content = _text(events, ReasoningDelta), _text(events, ContentDelta)
        if reasoning is not None and request.include_reasoning:
            message.reasoning = reasoning
        if content is not None:
            message.content = content
        calls = _call_deltas(events)
        if calls:
            message.tool_calls = calls
        return message if message.model_fields_set else None

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """How many of the output's tokens belong to its thinking block."""
        frame = self.frontend.start_frame(self._prompt)
        if self.frontend.thinking_ids is None or frame == "content":
            return 0
        opening, close = self.frontend.thinking_ids
        ids = list(token_ids)
        if frame == "opening" and ids[:1] != [opening]:
            return 0
        return ids.index(close) + 1 if close in ids else len(ids)

    def _reader_of(self, request: Any) -> OutputReader:
        if self._reader is None:
            prepared = REQUESTS.of(request)
            self._reader = OutputReader.of(prepared, self.frontend, self.model_tokenizer, self._prompt)
        return self._reader


def compose(
    tool_parser_name: str | None, reasoning_parser_name: str | None, tokenizer: Any
) -> type[NinferParser] | None:
    """The parser class of a server, or None for a model whose outputs no family understands.

    Errors: TypeError where another parser is named beside this one.
    """
    others = {tool_parser_name, reasoning_parser_name} - {NAME, None, ""}
    if others:
        raise TypeError(f"the parser {NAME} reads reasoning and tool calls; it cannot be combined with {others.pop()}")
    family = frontend_for(tokenizer)
    if family.name == "generic" or not _reads_prompts(family):
        return None

    class Composed(NinferParser):
        frontend = family
        reasoning_parser_cls = NinferReasoningParser
        tool_parser_cls = NinferToolParser

    return Composed


def reads_with_own_parser(serving: Any) -> bool:
    """Whether a serving class of the host publishes with this parser, or with none at all."""
    chosen = getattr(serving, "parser_cls", None) or getattr(serving, "parser", None)
    return chosen is None or issubclass(chosen, NinferParser)


def _reads_prompts(family: Frontend) -> bool:
    """Whether the family understands the model's thinking blocks; others stay in the text, as the host has them."""
    try:
        family.start_frame(())
    except UnsupportedTemplate:
        return False
    return True


def _text(events: list[Event], kind: type[ReasoningDelta] | type[ContentDelta]) -> str | None:
    texts = [event.text for event in events if isinstance(event, kind)]
    return "".join(texts) if texts else None


def _call_deltas(events: list[Event]) -> list[DeltaToolCall]:
    """Calls as the host streams them: a call's beginning and the arguments that came with it are one delta."""
    deltas: list[DeltaToolCall] = []
    for event in events:
        if isinstance(event, CallStarted):
            function = DeltaFunctionCall(name=event.name, arguments="")
            deltas.append(DeltaToolCall(id=make_tool_call_id(), type="function", index=event.index, function=function))
        elif isinstance(event, ArgumentsDelta):
            last = deltas[-1] if deltas else None
            if last is not None and last.index == event.index and last.function is not None:
                last.function.arguments = (last.function.arguments or "") + event.text
            else:
                deltas.append(DeltaToolCall(index=event.index, function=DeltaFunctionCall(arguments=event.text)))
    return deltas
