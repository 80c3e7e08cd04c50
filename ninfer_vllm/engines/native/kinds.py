"""What positions are made of: their kinds, what can happen at one, and what stands behind a unit."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Protocol

from ninfer_vllm.grammar.ir import Expr, Regular

END = 0
"""The end of a called body: back to the frames of the stack."""

ACCEPT = 1
"""The end of the whole text."""

Segment = tuple[int, int, int]
"""First and last byte, and their class."""

Need = tuple[int, int, int]
"""A state, a class of bytes in it, -1 where it has no classes yet, and a byte of that class, -1 where none is asked."""

Call = tuple[int, int, int, int, int]
"""Start of the called body, position to return to, and the width and counts of its frame."""


class UnitLike(Protocol):
    """An automaton of its own that stands for one terminal of a grammar; see `units` and `regulars`."""

    @property
    def item(self) -> Expr:
        """What the unit reads."""

    @property
    def terminator(self) -> int | None:
        """The byte behind it, where there is one."""

    def adopted(self, other: Any, state: int) -> int:
        """The state of this unit that stands for one of an equal unit."""

    def segments(self, state: int) -> tuple[Segment, ...]:
        """What a state reads."""

    def num_live(self, state: int) -> int:
        """How many different bytes a state reads."""

    def target(self, state: int, byte_class: int) -> int:
        """The state behind a byte of a class."""

    def ends(self, state: int) -> bool:
        """Whether the unit's text may end in a state."""

    def near(self, state: int) -> int:
        """The state no single token can tell from this one."""


class CountedUnit(UnitLike, Protocol):
    """A unit of any number of copies of an item."""

    def enter(self, minimum: int, maximum: int | None) -> int:
        """The state before the unit's text."""


class UnitSource(Protocol):
    """Where units come from."""

    def of(self, item: Expr, terminator: int) -> CountedUnit:
        """The unit of any number of copies of an item and the byte behind them."""

    def regular(self, item: Regular, terminator: int | None) -> UnitLike:
        """The unit of one automaton's texts, with the byte behind them where there is one; it starts in state 0."""


class Kind(IntEnum):
    """What a position is; those up to EXCLUDE are terminals."""

    ACCEPT = 0
    LITERAL = 1
    NODE = 2
    LISTING = 3
    UNIT = 4
    TOKEN = 5
    EXCLUDE = 6
    END = 7
    SEQUENCE = 8
    ALTERNATION = 9
    OPTIONAL = 10
    STAR = 11
    COUNT = 12
    REPEAT = 13
    CALL = 14


Local = tuple[tuple[int, ...], tuple[Call, ...], bool]
"""All that can happen at a position before anything is read: terminals, calls, and whether the body ends there.

A plain tuple of numbers, as most of what is kept: Python's collector does not look at those.
"""

WIDE = 48
"""Live first bytes from which on a mask is worth a shortcut: letters of one case and digits are fewer."""

UNSETTLED = (Kind.LISTING, Kind.UNIT)
"""Terminals that may also let the text go on behind them without reading."""

SINGLES: tuple[tuple[Segment, ...], ...] = tuple(((byte, byte, 1),) for byte in range(256))
"""What reads one byte only."""

NO_SEGMENTS: tuple[Segment, ...] = ()
