"""Text through a matcher: phases by their control tokens, content by its bytes.

Theory of operation. In the content a text stands for its bytes, whatever tokens spell them, so a matcher has one state
behind it. Before the content only two control tokens exist, and the first place where a text shows one of them stands
for that token; reasoning between them is spelled with the longest ordinary tokens, since of reasoning only the line
ends matter. Token terminals of a grammar match ids, not bytes: a content with such a grammar may have several readings,
which `token_readings` searches.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from ninfer_vllm.constraint import Frame
from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.grammar.ir import ExcludeToken, Token
from ninfer_vllm.testing.token_readings import Reading, Terminals, token_readings
from ninfer_vllm.testing.tool_readings import Markers, tool_reading
from ninfer_vllm.vocabulary import TokenClass, Vocabulary


class Reader:
    """Reads texts over one vocabulary; `thinking_ids` are the control tokens around reasoning."""

    def __init__(self, vocabulary: Vocabulary, thinking_ids: tuple[int, int] | None) -> None:
        self._vocabulary = vocabulary
        self._thinking_ids = thinking_ids

    def read(
        self, text: bytes, matcher: Matcher, frame: Frame, terminals: tuple[Token | ExcludeToken, ...] | Markers
    ) -> Iterator[Reading]:
        """All readings of a text by a new matcher; at least one, and none is legal where no token sequence spells it.

        `terminals` are the token terminals of the grammar, or the markers of tool calls.

        Errors: LimitExceeded where too many readings would have to be tried.
        """
        start = 0
        if frame != "content":
            before = self._before_content(text, matcher, frame)
            if before is not None:
                yield before
                return
            start = text.index(self._thinking_spellings[1]) + len(self._thinking_spellings[1])
        if isinstance(terminals, Markers):
            yield tool_reading(matcher, text, start, terminals)
            return
        if not terminals:
            yield Reading.up_to(start + matcher.accept_bytes(text[start:]), text)
            return
        yield from token_readings(matcher, text, start, Terminals.of(terminals, self._vocabulary))

    @cached_property
    def _ordinary(self) -> dict[bytes, int]:
        spellings = self._vocabulary.spellings
        return {spellings[token]: token for token in self._vocabulary.ids(TokenClass.ORDINARY)}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._ordinary))

    @property
    def _thinking_spellings(self) -> tuple[bytes, bytes]:
        assert self._thinking_ids is not None
        opening, closing = self._thinking_ids
        return self._vocabulary.spellings[opening], self._vocabulary.spellings[closing]

    def _before_content(self, text: bytes, matcher: Matcher, frame: Frame) -> Reading | None:
        """Read up to the content; the reading, where the text ends or fails before it."""
        assert self._thinking_ids is not None
        opening, closing = self._thinking_spellings
        offset = 0
        if frame == "opening":
            if not text.startswith(opening) or not matcher.accept(self._thinking_ids[0]):
                return Reading.up_to(0, text)
            offset = len(opening)
        close = text.find(closing, offset)
        end = len(text) if close < 0 else close
        offset = self._reasoning(text, offset, end, matcher)
        if offset < end or close < 0:
            return Reading.up_to(offset, text)
        return None if matcher.accept(self._thinking_ids[1]) else Reading(offset, legal=False, whole=False)

    def _reasoning(self, text: bytes, offset: int, end: int, matcher: Matcher) -> int:
        """Accept ordinary tokens from `offset` to `end`; where that stops."""
        while offset < end:
            lengths = range(min(self._longest, end - offset), 0, -1)
            spelled = (text[offset : offset + length] for length in lengths)
            piece = next((piece for piece in spelled if piece in self._ordinary), None)
            if piece is None or not matcher.accept(self._ordinary[piece]):
                break
            offset += len(piece)
        return offset
