"""The structural tokens of JSON: compact, spaced, or with bounded white space between them (JSO-3, JSO-7, TOOL-6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ninfer_vllm.automata.algebra import explore, minimise
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.grammar.build import concat
from ninfer_vllm.grammar.ir import EMPTY_TEXT, Expr, Literal, Rule, Sequence

WHITE_SPACE_CHARS = 20
"""White space at one place: enough for deep indentation, too little to run away."""

LINE_BREAKS = 2
"""Line breaks at one place: two make one blank line."""

BLANK = CharSet.from_chars(" \t")
LINE_FEED = CharSet.from_chars("\n")
RETURN = CharSet.from_chars("\r")


def joined(*items: Expr) -> Expr:
    """The items in order, nested sequences flattened and neighbouring literals made one."""
    return concat(part for item in items for part in (item.items if isinstance(item, Sequence) else (item,)))


@dataclass(frozen=True, slots=True)
class Tokens:
    """Brackets, commas and colons with the white space that may stand beside them."""

    space: Expr = EMPTY_TEXT
    gap: bytes = b""
    """What always stands behind a comma or colon."""

    def opening(self, bracket: str) -> Expr:
        """An opening bracket and what may follow it."""
        return joined(Literal(bracket.encode()), self.space)

    def closing(self, bracket: str) -> Expr:
        """A closing bracket and what may precede it."""
        return joined(self.space, Literal(bracket.encode()))

    def between(self, token: str) -> Expr:
        """A comma or colon and what may surround it."""
        return joined(self.space, Literal(token.encode() + self.gap), self.space)

    def empty(self, brackets: str) -> Expr:
        """An empty object or array."""
        return joined(Literal(brackets[0].encode()), self.space, Literal(brackets[1].encode()))


COMPACT = Tokens()
FLEXIBLE = Tokens(Rule("space"))
SPACED = Tokens(gap=b" ")
"""As Python's `json.dumps` and the `tojson` of chat templates write JSON."""


class Unmarked(Tokens):
    """No structural tokens at all: members that bring their own frame."""

    __slots__ = ()

    def opening(self, bracket: str) -> Expr:
        """The empty text."""
        return EMPTY_TEXT

    def closing(self, bracket: str) -> Expr:
        """The empty text."""
        return EMPTY_TEXT

    def between(self, token: str) -> Expr:
        """The empty text."""
        return EMPTY_TEXT

    def empty(self, brackets: str) -> Expr:
        """The empty text."""
        return EMPTY_TEXT


UNMARKED = Unmarked()


def white_space() -> Dfa:
    """Up to `WHITE_SPACE_CHARS` characters and `LINE_BREAKS` line breaks; a carriage return needs its line feed."""

    def successors(state: tuple[int, int, bool]) -> Iterator[tuple[CharSet, tuple[int, int, bool]]]:
        length, breaks, returned = state
        if length == WHITE_SPACE_CHARS:
            return
        if breaks < LINE_BREAKS:
            yield LINE_FEED, (length + 1, breaks + 1, False)
        if not returned:
            yield BLANK, (length + 1, breaks, False)
            if breaks < LINE_BREAKS:
                yield RETURN, (length + 1, breaks, True)

    return minimise(explore((0, 0, False), successors, lambda state: not state[2]))
