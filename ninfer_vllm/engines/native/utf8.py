"""Characters as bytes: a decision node a byte, down to the state that a whole character leads to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from ninfer_vllm.automata.charset import CharSet

Piece = tuple[int, int, int]
"""An inclusive range of values of the bytes still to come, and the state they lead to."""

ONE_BYTE = 0x80
CONTINUATION = 0x80
TAIL_VALUES = 64
LEADS = ((0x80, 0x7FF, 0xC0, 1), (0x800, 0xFFFF, 0xE0, 2), (0x10000, 0x10FFFF, 0xF0, 3))
"""First and last code of an encoded length, the lead byte of code 0 in it, continuation bytes."""


class ByteNode:
    """What one byte may be and where it leads: disjoint ranges in order, to a node or to a state. Known by identity."""

    def __init__(self, edges: tuple[tuple[int, int, ByteNode | int], ...]) -> None:
        self.edges = edges

    @cached_property
    def segments(self) -> tuple[tuple[int, int, int], ...]:
        """The ranges with a number for where they lead, from 1."""
        numbers: dict[ByteNode | int, int] = {}
        return tuple((low, high, numbers.setdefault(child, len(numbers) + 1)) for low, high, child in self.edges)

    @cached_property
    def only_target(self) -> int | None:
        """The state that every character leads to; None where there are several."""
        found = {child.only_target if isinstance(child, ByteNode) else child for _, _, child in self.edges}
        return found.pop() if len(found) == 1 else None


WIDE = 48
"""Live first bytes from which on a mask is worth a shortcut: letters of one case and digits are fewer."""


class ByteNodes:
    """Builds nodes; equal ones are built once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, int, ByteNode | int], ...], ByteNode] = {}
        self._of_sets: dict[tuple[CharSet, int], ByteNode] = {}

    def of_set(self, chars: CharSet, target: int = 0) -> ByteNode:
        """The node before a character of a set."""
        key = (chars, target)
        found = self._of_sets.get(key)
        if found is None:
            found = self._of_sets[key] = self.of_edges(((chars, target),))
        return found

    def of_edges(self, edges: Iterable[tuple[CharSet, int]]) -> ByteNode:
        """The node before a character of disjoint sets, each with its target."""
        pieces = sorted((low, high, target) for chars, target in edges for low, high in chars.ranges)
        found: list[tuple[int, int, ByteNode | int]] = [
            (low, min(high, ONE_BYTE - 1), target) for low, high, target in pieces if low < ONE_BYTE
        ]
        for first, last, lead, tails in LEADS:
            inside = [
                (max(low, first), min(high, last), target)
                for low, high, target in pieces
                if low <= last and high >= first
            ]
            if inside:
                found.extend(self._split(inside, lead, tails))
        return self._intern(found)

    def of_bytes(self, values: Iterable[int]) -> ByteNode:
        """The node before one byte out of a set; all lead to state 0."""
        return self._intern([(value, value, 0) for value in sorted(values)])

    def _split(self, pieces: Sequence[Piece], base: int, tails: int) -> list[tuple[int, int, ByteNode | int]]:
        """The edges of one byte: `base` plus the value's part above `tails` further bytes."""
        size: int = TAIL_VALUES**tails
        edges: list[tuple[int, int, ByteNode | int]] = []
        partial: list[Piece] = []
        at = -1
        for low, high, target in pieces:
            while low <= high:
                block = low // size
                if block != at:
                    self._flush(edges, partial, base + at, tails)
                    at = block
                end = min(high, (block + 1) * size - 1)
                whole = (high + 1) // size
                if low == block * size and whole > block:
                    edges.append((base + block, base + whole - 1, self._full(target, tails)))
                    low = whole * size
                else:
                    partial.append((low - block * size, end - block * size, target))
                    low = end + 1
        self._flush(edges, partial, base + at, tails)
        return edges

    def _flush(self, edges: list[tuple[int, int, ByteNode | int]], partial: list[Piece], byte: int, tails: int) -> None:
        if partial:
            edges.append((byte, byte, self._intern(self._split(partial, CONTINUATION, tails - 1))))
            partial.clear()

    def _full(self, target: int, tails: int) -> ByteNode | int:
        found: ByteNode | int = target
        for _ in range(tails):
            found = self._intern([(CONTINUATION, CONTINUATION + TAIL_VALUES - 1, found)])
        return found

    def _intern(self, edges: list[tuple[int, int, ByteNode | int]]) -> ByteNode:
        joined: list[tuple[int, int, ByteNode | int]] = []
        for low, high, child in edges:
            # Nodes have no equality of their own, so that equal means the same.
            if joined and joined[-1][1] + 1 == low and joined[-1][2] == child:
                joined[-1] = (joined[-1][0], high, child)
            else:
                joined.append((low, high, child))
        key = tuple(joined)
        return self._known.setdefault(key, ByteNode(key))
