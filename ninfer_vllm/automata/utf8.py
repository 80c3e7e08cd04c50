"""Characters as their UTF-8 bytes: automata over text become automata over bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ninfer_vllm.automata.algebra import explore
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa, Edge

ONE_BYTE = 0x80
CONTINUATION = 0x80
TAIL_VALUES = 64
LEADS = ((0x80, 0x7FF, 0xC0, 1), (0x800, 0xFFFF, 0xE0, 2), (0x10000, 0x10FFFF, 0xF0, 3))
"""First and last code of an encoded length, the lead byte of code 0 in it, continuation bytes."""

Piece = tuple[int, int, int]
"""An inclusive range of what the bytes still to come spell, and the state it leads to."""


@dataclass(frozen=True, slots=True)
class Fork:
    """What the next byte may be: disjoint inclusive ranges in order, each to a further fork or to a state."""

    branches: tuple[Branch, ...]


Branch = tuple[int, int, Fork | int]


def fork(edges: Iterable[Edge]) -> Fork:
    """The first byte of a character out of disjoint sets; whole characters lead to the states of their sets."""
    pieces = sorted((low, high, target) for chars, target in edges for low, high in chars.ranges)
    branches: list[Branch] = list(_clipped(pieces, 0, ONE_BYTE - 1))
    for first, last, lead, tails in LEADS:
        branches.extend(_split(list(_clipped(pieces, first, last)), lead, tails))
    return Fork(_joined(branches))


def encoded(automaton: Dfa) -> Dfa:
    """The automaton that reads the UTF-8 encodings of an automaton's texts, byte by byte.

    Errors: LimitExceeded beyond `REGULAR_STATES` states.
    """

    def successors(state: Fork | int) -> Iterator[tuple[CharSet, Fork | int]]:
        now = fork(automaton.edges[state]) if isinstance(state, int) else state
        ranges: dict[Fork | int, list[tuple[int, int]]] = {}
        for low, high, below in now.branches:
            ranges.setdefault(below, []).append((low, high))
        return ((CharSet.from_ranges(found), below) for below, found in ranges.items())

    start: Fork | int = 0
    return explore(start, successors, lambda state: state in automaton.accepting)


def _clipped(pieces: Iterable[Piece], first: int, last: int) -> Iterator[Piece]:
    for low, high, target in pieces:
        if low <= last and high >= first:
            yield max(low, first), min(high, last), target


def _split(pieces: Sequence[Piece], base: int, tails: int) -> Iterator[Branch]:
    """The branches of one byte, which is `base` and what the value has above `tails` further bytes."""
    if not tails:
        yield from ((base + low, base + high, target) for low, high, target in pieces)
        return
    blocks: dict[tuple[int, int], list[Piece]] = {}
    for piece in pieces:
        for block, inside in _blocks(piece, TAIL_VALUES**tails):
            blocks.setdefault(block, []).append(inside)
    for (low, high), parts in blocks.items():
        yield base + low, base + high, Fork(_joined(_split(parts, CONTINUATION, tails - 1)))


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
