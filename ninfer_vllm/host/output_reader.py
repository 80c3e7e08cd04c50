"""Reads one sample's output, whole or in pieces, into the events that are published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninfer_vllm.host.events import Event, OutputParser, joined
from ninfer_vllm.host.frontend import Frontend
from ninfer_vllm.host.marked_text import MarkedText
from ninfer_vllm.host.prepared import Prepared


class OutputReader:
    """One sample: token ids under a constraint, the host's text without one."""

    def __init__(
        self, parser: OutputParser, text: MarkedText | None, ends: frozenset[int], close_id: int | None
    ) -> None:
        """`text` reads free outputs; `ends` are end tokens; `close_id` ends the thinking, if there is any."""
        self._parser = parser
        self._text = text
        self._ends = ends
        self._close_id = close_id
        self.is_behind_thinking = close_id is None
        """Whether the content has begun."""

    @classmethod
    def of(cls, prepared: Prepared | None, frontend: Frontend, tokenizer: Any, prompt: Sequence[int]) -> OutputReader:
        """The reader of a sample; `prepared` is None for a request that never passed preparation."""
        thinks = frontend.thinking_ids is not None and frontend.start_frame(prompt) != "content"
        close_id = frontend.thinking_ids[1] if thinks and frontend.thinking_ids is not None else None
        if prepared is not None and prepared.enforced:
            ends = frozenset(prepared.preparer.eos_ids)
            return cls(prepared.parser(prompt), None, ends, None if prepared.existing else close_id)

        def spell(token: int) -> str:
            return str(tokenizer.convert_ids_to_tokens(token))

        tools = None if prepared is None else prepared.tools
        parser = frontend.output_parser(tools, frontend.start_frame(prompt), lambda token: spell(token).encode())
        marked = [*(frontend.thinking_ids or ()), *(frontend.tool_ids or () if tools is not None else ())]
        ends = frozenset([tokenizer.eos_token_id])
        return cls(parser, MarkedText({spell(token): token for token in marked}), ends, close_id)

    def read(self, text: str, tokens: Sequence[int], *, last: bool) -> list[Event]:
        """What more of the output publishes."""
        self.is_behind_thinking = self.is_behind_thinking or self._close_id in tokens
        events: list[Event] = []
        if self._text is None:
            events += self._parser.feed([token for token in tokens if token not in self._ends])
        else:
            for part in self._text.parts(text, last=last):
                events += self._parser.feed((part,)) if isinstance(part, int) else self._parser.feed_bytes(part)
        if last:
            ended = bool(tokens) and tokens[-1] in self._ends
            events += self._parser.finish("stop" if ended else "length")
        return joined(events)
