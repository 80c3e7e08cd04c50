"""Characters as their UTF-8 bytes: automata over text become automata over bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from ninfer_vllm.automata.algebra import explore
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa, Edge

ONE_BYTE = 0x80
CONTINUATION = 0x80
TAIL_VALUES = 64
LEADS = ((0x80, 0x7FF, 0xC0, 1), (0x800, 0xFFFF, 0xE0, 2), (0x10000, 0x10FFFF, 0xF0, 3))
"""First and last code of an encoded length, the lead byte of code 0 in it, continuation bytes."""

Piece = tuple[int, int, int]
"""An inclusive range of characters, or of what the bytes still to come spell, and the state it leads to."""


class Fork:
    """What the next byte may be: disjoint inclusive ranges in order, each to a further fork or to a state.

    Known by identity: one builder makes equal forks once.
    """

    def __init__(self, branches: tuple[Branch, ...]) -> None:
        self.branches = branches

    @cached_property
    def segments(self) -> tuple[tuple[int, int, int], ...]:
        """The ranges with a number for where they lead, from 1."""
        numbers: dict[Fork | int, int] = {}
        return tuple((low, high, numbers.setdefault(below, len(numbers) + 1)) for low, high, below in self.branches)


Branch = tuple[int, int, Fork | int]


class Forks:
    """Builds forks; equal ones are built once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Branch, ...], Fork] = {}
        self._tails: dict[tuple[Piece, ...], tuple[Branch, ...]] = {}

    def before(self, edges: Iterable[Edge]) -> Fork:
        """The first byte of a character out of disjoint sets; whole characters lead to the states of their sets."""
        return self._interned(self.branches(edges))

    def of_bytes(self, values: Iterable[int]) -> Fork:
        """One byte out of a set; all lead to state 0."""
        return self._interned(_joined((value, value, 0) for value in sorted(values)))

    def branches(self, edges: Iterable[Edge]) -> tuple[Branch, ...]:
        """The branches of `before`, without a fork of their own."""
        pieces = sorted((low, high, target) for chars, target in edges for low, high in chars.ranges)
        short = [(low, min(high, ONE_BYTE - 1), target) for low, high, target in pieces if low < ONE_BYTE]
        # Automata over text mostly treat all characters beyond ASCII alike: those are worked out once.
        long = tuple((max(low, ONE_BYTE), high, target) for low, high, target in pieces if high >= ONE_BYTE)
        tail = self._tails.get(long)
        if tail is None:
            tail = self._tails[long] = self.beyond_ascii(long)
        return (*_joined(short), *tail)

    def beyond_ascii(self, pieces: Sequence[Piece]) -> tuple[Branch, ...]:
        """The branches of characters beyond ASCII only, from ranges in order with their states."""
        return _joined(self._leads(pieces))

    def adopted(self, other: Fork) -> Fork:
        """The fork of this builder that is equal to one of another."""
        return self._interned(
            tuple(
                (low, high, self.adopted(below) if isinstance(below, Fork) else below)
                for low, high, below in other.branches
            )
        )

    def _leads(self, pieces: Sequence[Piece]) -> Iterator[Branch]:
        for first, last, lead, tails in LEADS:
            inside = [
                (max(low, first), min(high, last), target)
                for low, high, target in pieces
                if low <= last and high >= first
            ]
            yield from self._split(inside, lead, tails)

    def _split(self, pieces: Sequence[Piece], base: int, tails: int) -> Iterator[Branch]:
        """The branches of one byte, which is `base` and what the value has above `tails` further bytes."""
        if not tails:
            yield from ((base + low, base + high, target) for low, high, target in pieces)
            return
        blocks: dict[tuple[int, int], list[Piece]] = {}
        for piece in pieces:
            for block, inside in _blocks(piece, TAIL_VALUES**tails):
                blocks.setdefault(block, []).append(inside)
        for (low, high), parts in blocks.items():
            below = self._interned(_joined(self._split(parts, CONTINUATION, tails - 1)))
            yield base + low, base + high, below

    def _interned(self, branches: tuple[Branch, ...]) -> Fork:
        found = self._known.get(branches)
        if found is None:
            found = self._known[branches] = Fork(branches)
        return found


def encoded(automaton: Dfa) -> Dfa:
    """The automaton that reads the UTF-8 encodings of an automaton's texts, byte by byte.

    Errors: LimitExceeded beyond `REGULAR_STATES` states.
    """
    forks = Forks()

    def successors(state: Fork | int) -> Iterator[tuple[CharSet, Fork | int]]:
        branches = forks.branches(automaton.edges[state]) if isinstance(state, int) else state.branches
        ranges: dict[Fork | int, list[tuple[int, int]]] = {}
        for low, high, below in branches:
            ranges.setdefault(below, []).append((low, high))
        return ((CharSet.from_ranges(found), below) for below, found in ranges.items())

    start: Fork | int = 0
    return explore(start, successors, lambda state: state in automaton.accepting)


def _blocks(piece: Piece, size: int) -> Iterator[tuple[tuple[int, int], Piece]]:
    """A piece cut at the borders of blocks: a part of the first block, whole ones, a part of the last."""
    low, high, target = piece
    first, last = low // size, high // size
    if first == last:
        yield (first, first), (low % size, high % size, target)
        return
    if low % size:
        yield (first, first), (low % size, size - 1, target)
        first += 1
    whole = last - 1 if (high + 1) % size else last
    if first <= whole:
        yield (first, whole), (0, size - 1, target)
    if whole < last:
        yield (last, last), (0, high % size, target)


def _joined(branches: Iterable[Branch]) -> tuple[Branch, ...]:
    """Neighbouring ranges to the same place made one."""
    found: list[Branch] = []
    for low, high, below in branches:
        if found and found[-1][1] + 1 == low and found[-1][2] == below:
            found[-1] = (found[-1][0], high, below)
        else:
            found.append((low, high, below))
    return tuple(found)
