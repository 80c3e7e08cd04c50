"""What a parser of generated tokens publishes, piece by piece; nothing is ever taken back (THK-8, TOOL-10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More text of the thinking block."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More text of the content."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call of a tool; `index` counts the calls of the output from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More JSON text of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """A complete call with the whole JSON text of its arguments."""

    index: int
    name: str
    arguments: str


Event = ReasoningDelta | ContentDelta | CallStarted | ArgumentsDelta | CallFinished


class OutputParser(Protocol):
    """Reads the tokens of one output as they come."""

    def feed(self, tokens: Sequence[int]) -> list[Event]:
        """What more tokens publish; end tokens are not given."""

    def feed_bytes(self, data: bytes) -> list[Event]:
        """What more text publishes, none of it a control token."""

    def finish(self, reason: str) -> list[Event]:
        """What the end publishes; `reason` is the host's finish reason."""


def joined(events: list[Event]) -> list[Event]:
    """The same events with neighbouring texts of one kind made one."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, ContentDelta) and isinstance(last, ContentDelta):
            found[-1] = ContentDelta(last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            found[-1] = ReasoningDelta(last.text + event.text)
        else:
            found.append(event)
    return found
