"""`QwenOutputParser`: reasoning, content and tool calls out of the tokens of an output (THK-1, THK-4, THK-8)."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer_vllm.constraint import Frame
from ninfer_vllm.grammar.framing import AFTER_CLOSE
from ninfer_vllm.host.events import Event, ReasoningDelta, joined
from qwen_frontend.tools.parser import UTF8, CallParser, Spelling

LINE_BREAK = b"\n"


class QwenOutputParser:
    """Follows the phases of one output; line breaks of the frame belong to no field."""

    def __init__(
        self, frame: Frame, thinking_ids: tuple[int, int] | None, calls: CallParser, spelling: Spelling
    ) -> None:
        self._phase = frame if thinking_ids is not None else "content"
        self._open_id, self._close_id = thinking_ids or (-1, -1)
        self._calls = calls
        self._spelling = spelling
        self._reasoning = UTF8("replace")
        self._held = ""
        """A line break that is part of the frame if the block closes behind it."""
        self._skipped = 0
        """Line breaks that may still belong to the frame."""

    def feed(self, tokens: Sequence[int]) -> list[Event]:
        """What more tokens publish; end tokens are not given.

        Errors: UnreadableToolCall.
        """
        events: list[Event] = []
        for token in tokens:
            events += self._token(token)
        return joined(events)

    def feed_bytes(self, data: bytes) -> list[Event]:
        """What more text publishes, none of it a control token."""
        return self._think(data) if self._phase == "thinking" else self._body(data)

    def finish(self, reason: str) -> list[Event]:
        """What the end publishes; `reason` is the host's finish reason."""
        if self._phase == "thinking":
            text = self._held + self._reasoning.decode(b"", final=True)
            return [ReasoningDelta(text)] if text else []
        return self._calls.finish(reason)

    def _token(self, token: int) -> list[Event]:
        if self._phase == "opening":
            if token == self._open_id:
                self._phase, self._skipped = "thinking", len(LINE_BREAK)
                return []
            self._phase = "content"
        if self._phase == "content":
            framing = self._skipped and not self._calls.is_control(token)
            return self._body(self._spelling(token)) if framing else self._calls.feed((token,))
        if token != self._close_id:
            return self._think(self._spelling(token))
        self._phase, self._skipped, self._held = "content", len(AFTER_CLOSE), ""
        cut = self._reasoning.decode(b"", final=True)
        return [ReasoningDelta(cut)] if cut else []

    def _body(self, data: bytes) -> list[Event]:
        return self._calls.feed_bytes(self._behind_frame(data))

    def _think(self, data: bytes) -> list[Event]:
        text = self._held + self._reasoning.decode(self._behind_frame(data))
        self._held = "\n" if text.endswith("\n") else ""
        text = text.removesuffix("\n")
        return [ReasoningDelta(text)] if text else []

    def _behind_frame(self, data: bytes) -> bytes:
        """The data without the line breaks at its start that belong to the frame."""
        while self._skipped and data[:1] == LINE_BREAK:
            data = data[1:]
            self._skipped -= 1
        if data:
            self._skipped = 0
        return data
