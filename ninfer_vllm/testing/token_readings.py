"""Search for the token sequences that spell a text, for grammars whose terminals are tokens.

Theory of operation. A multi-byte token and the tokens of its single bytes lead through byte terminals to the same
place, so single bytes and the tokens that terminals can name are the only candidates; the search is depth first and
its steps are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.ir import ExcludeToken, Token
from ninfer_vllm.limits import TOKEN_READINGS
from ninfer_vllm.vocabulary import TokenClass, Vocabulary


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a text goes; the matcher stands behind it until the next reading is asked for."""

    offset: int
    """Bytes of the text that were read."""
    legal: bool
    """Whether the whole text is a prefix of the language in this reading."""
    whole: bool
    """Whether the matcher stands right behind the whole text, and not before the token that it ends in."""

    @classmethod
    def up_to(cls, offset: int, text: bytes) -> Reading:
        """The reading of a text that goes as far as `offset`."""
        return cls(offset, offset == len(text), offset == len(text))


@dataclass(frozen=True, slots=True)
class Terminals:
    """What can be a token of a reading: ids by their spelling, and the length of the longest."""

    by_spelling: dict[bytes, list[int]]
    longest: int

    @classmethod
    def of(cls, terminals: tuple[Token | ExcludeToken, ...], vocabulary: Vocabulary) -> Terminals:
        """The candidates for a grammar with these token terminals."""
        ordinary = vocabulary.ids(TokenClass.ORDINARY)
        wide = any(isinstance(node, ExcludeToken) for node in terminals)
        named = {token for node in terminals if isinstance(node, Token) for token in node.ids}
        found: dict[bytes, list[int]] = {}
        for token in ordinary:
            spelling = vocabulary.spellings[token]
            if spelling and (wide or token in named or len(spelling) == 1):
                found.setdefault(spelling, []).append(token)
        return cls(found, max(map(len, found)))

    def at(self, text: bytes, offset: int) -> Iterator[tuple[int, int]]:
        """Candidates at an offset, longest first, with the offset behind each."""
        for length in range(min(self.longest, len(text) - offset), 0, -1):
            for token in self.by_spelling.get(text[offset : offset + length], ()):
                yield token, offset + length

    def beyond(self, text: bytes, offset: int) -> Iterator[int]:
        """Tokens that start with the rest of the text and go on."""
        rest = text[offset:]
        for spelling, tokens in self.by_spelling.items():
            if len(spelling) > len(rest) and spelling.startswith(rest):
                yield from tokens


def token_readings(matcher: Matcher, text: bytes, start: int, terminals: Terminals) -> Iterator[Reading]:
    """Bring the matcher, which stands at `start`, behind the text in each possible way.

    One reading that is not legal comes where there is no legal one.

    Errors: LimitExceeded.
    """
    if start == len(text):
        yield Reading.up_to(start, text)
        return
    steps, furthest, found = 0, start, False
    trail, offsets = [terminals.at(text, start)], [start]
    while trail:
        candidate = next(trail[-1], None)
        if candidate is None:
            if _ends_inside_token(matcher, text, offsets[-1], terminals):
                found = True
                yield Reading(len(text), legal=True, whole=False)
            trail.pop()
            offsets.pop()
            if trail:
                matcher.rollback(1)
            continue
        steps += 1
        if steps > TOKEN_READINGS:
            raise LimitExceeded("token_readings", TOKEN_READINGS)
        token, offset = candidate
        if not matcher.accept(token):
            continue
        furthest = max(furthest, offset)
        if offset == len(text):
            found = True
            yield Reading.up_to(offset, text)
            matcher.rollback(1)
        else:
            trail.append(terminals.at(text, offset))
            offsets.append(offset)
    if not found:
        yield Reading(furthest, legal=False, whole=False)


def _ends_inside_token(matcher: Matcher, text: bytes, offset: int, terminals: Terminals) -> bool:
    for token in terminals.beyond(text, offset):
        if matcher.accept(token):
            matcher.rollback(1)
            return True
    return False
