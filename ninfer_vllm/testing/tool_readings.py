"""Text with tool calls through a matcher: where a text shows a call's marker, it stands for the control token.

Theory of operation. A tokenizer reads the visible text of these tokens as the tokens, so a text stands for them where
they are legal. Where they are not, inside a string or a raw value, the same text can only be data, spelled by ordinary
tokens. In an output that may not call tools at all it is read as the token as well, and is therefore illegal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.testing.token_readings import Reading


@dataclass(frozen=True, slots=True)
class Markers:
    """The control tokens of calls by their visible text."""

    ids: Mapping[bytes, int]
    may_be_data: bool
    """Whether the text may also be spelled by ordinary tokens."""

    def next_in(self, text: bytes, offset: int) -> tuple[int, bytes]:
        """Where the next marker begins, and its text; the end of the text and nothing where there is none."""
        found = [(at, marker) for marker in self.ids if (at := text.find(marker, offset)) >= 0]
        return min(found, default=(len(text), b""))


def tool_reading(matcher: Matcher, text: bytes, start: int, markers: Markers) -> Reading:
    """Bring the matcher, which stands at `start`, behind the text."""
    offset = start
    while True:
        end, marker = markers.next_in(text, offset)
        accepted = matcher.accept_bytes(text[offset:end])
        if accepted < end - offset:
            return _cut(matcher, text, offset, markers) or Reading(offset + accepted, legal=False, whole=False)
        if not marker:
            return Reading.up_to(end, text)
        offset = end + len(marker)
        is_legal = matcher.accept(markers.ids[marker])
        if not is_legal and not (markers.may_be_data and matcher.accept_bytes(marker) == len(marker)):
            return Reading(end, legal=False, whole=False)


def _cut(matcher: Matcher, text: bytes, offset: int, markers: Markers) -> Reading | None:
    """The reading of a text that ends inside a marker, where that is legal."""
    rest = text[offset:]
    for length in range(1, max(map(len, markers.ids))):
        begun = [token for marker, token in markers.ids.items() if rest.endswith(marker[:length])]
        # A beginning of a marker holds no other one, so that a single length can fit.
        if begun and matcher.accept_bytes(rest[:-length]) == len(rest) - length:
            for token in begun:
                if matcher.accept(token):
                    matcher.rollback(1)
                    return Reading(len(text), legal=True, whole=False)
            return None
    return None
