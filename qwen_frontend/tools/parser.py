"""`CallParser`: content and tool calls out of the tokens of an output, as they come.

Theory of operation. Only the control tokens begin and end a call; their visible text, spelled by other tokens, is text.
A call is published when its closing token is there, whole: what is published can not change any more, and a call that
is cut yields nothing (TOOL-10). Content is published at once, whole characters only. On a constrained output a call
that cannot be read is a fault of ours and raises; on a free one its text is content (TOOL-11).
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

from ninfer_vllm.errors import UnreadableToolCall
from ninfer_vllm.host.events import ArgumentsDelta, CallFinished, CallStarted, ContentDelta, Event, joined
from qwen_frontend.tools.contract import ToolContract
from qwen_frontend.tools.reading import begins_call, read_exactly, read_kindly

Spelling = Callable[[int], bytes]
"""The bytes of a token."""

NO_IDS = (-1, -1)
UTF8 = codecs.getincrementaldecoder("utf-8")


class CallParser:
    """Reads what follows the thinking block; without a contract everything is content."""

    def __init__(self, contract: ToolContract | None, tool_ids: tuple[int, int] | None, spelling: Spelling) -> None:
        self._contract = contract
        self._open_id, self._close_id = tool_ids if tool_ids is not None and contract is not None else NO_IDS
        self._spelling = spelling
        self._content = UTF8("replace")
        self._call: bytearray | None = None
        """The text of the call that has begun."""
        self._has_begun = False
        """Whether the text of a free call is known to begin as one."""
        self._between = ""
        """White space somewhere behind a call, which is content only if more content follows."""
        self._num_calls = 0
        self._events: list[Event] = []

    def feed(self, tokens: Sequence[int]) -> list[Event]:
        """What more tokens publish.

        Errors: UnreadableToolCall.
        """
        for token in tokens:
            if token == self._open_id:
                self._open()
            elif token == self._close_id and self._call is not None:
                self._close()
            else:
                self._bytes(self._spelling(token))
        return self._taken()

    def is_control(self, token: int) -> bool:
        """Whether a token begins or ends a call."""
        return token in (self._open_id, self._close_id)

    def feed_bytes(self, data: bytes) -> list[Event]:
        """What more text publishes, none of it a control token."""
        self._bytes(data)
        return self._taken()

    def finish(self, reason: str) -> list[Event]:
        """What the end publishes: nothing of a call that was cut, unless the model itself ended a free output in it."""
        if self._call is not None and reason == "stop" and not self._is_enforced:
            self._give_up(b"")
        self._flush()
        return self._taken()

    @property
    def _is_enforced(self) -> bool:
        return self._contract is not None and self._contract.is_enforced

    def _open(self) -> None:
        if self._call is not None:
            self._give_up(b"")
        self._flush()
        self._call = bytearray()
        self._has_begun = self._is_enforced

    def _close(self) -> None:
        assert self._call is not None
        assert self._contract is not None
        text = self._call.decode(errors="replace")
        try:
            call = read_exactly(self._contract, text) if self._is_enforced else read_kindly(self._contract, text)
        except ValueError as fault:
            if self._is_enforced:
                raise UnreadableToolCall(str(fault)) from None
            self._give_up(self._spelling(self._close_id))
            return
        self._call = None
        self._between = ""
        index = self._num_calls
        self._num_calls += 1
        self._events.append(CallStarted(index, call.name))
        self._events.append(ArgumentsDelta(index, call.arguments))
        self._events.append(CallFinished(index, call.name, call.arguments))

    def _bytes(self, data: bytes) -> None:
        if self._call is None:
            self._publish(self._content.decode(data))
            return
        self._call += data
        if self._has_begun:
            return
        assert self._contract is not None
        begins = begins_call(self._contract, self._call.decode(errors="replace"))
        self._has_begun = begins is True
        if begins is False:
            self._give_up(b"")

    def _give_up(self, closing: bytes) -> None:
        """Publish the text of a call that is none."""
        assert self._call is not None
        data = self._spelling(self._open_id) + bytes(self._call) + closing
        self._call = None
        self._publish(self._content.decode(data))

    def _publish(self, text: str) -> None:
        if self._num_calls:
            text = self._between + text
            kept = text.rstrip()
            text, self._between = kept, text[len(kept) :]
            if text and self._is_enforced:
                raise UnreadableToolCall("content follows a call")
        if text:
            self._events.append(ContentDelta(text))

    def _flush(self) -> None:
        """Publish what is left of a character that was cut."""
        self._publish(self._content.decode(b"", final=True))
        self._content.reset()

    def _taken(self) -> list[Event]:
        events, self._events = joined(self._events), []
        return events
