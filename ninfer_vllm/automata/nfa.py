"""Nondeterministic automata after Thompson: moves over sets of codes, and silent moves.

Codes are Unicode scalar values where the automaton reads text, and 0 to 255 where it reads bytes; nothing here tells
them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.limits import NFA_STATES

Move = tuple[int, int]
"""The number of a label and the state it leads to."""

Span = tuple[int, int]
"""The states that a part leads from and to."""


@dataclass(frozen=True, slots=True)
class Nfa:
    """An automaton that accepts what leads from `start` to `end`."""

    labels: tuple[CharSet, ...]
    moves: tuple[tuple[Move, ...], ...]
    silent: tuple[tuple[int, ...], ...]
    start: int
    end: int


class NfaBuilder:
    """Collects states and moves.

    Whoever builds a part between two states adds only moves out of the first and into the second, so that parts can
    share their ends: an alternative is several parts between the same two states.
    """

    def __init__(self, allowed: int = NFA_STATES) -> None:
        self._allowed = allowed
        self._labels: dict[CharSet, int] = {}
        self._moves: list[list[Move]] = []
        self._silent: list[list[int]] = []

    def state(self) -> int:
        """A new state; Errors: LimitExceeded beyond the allowed number."""
        number = len(self._moves)
        if number >= self._allowed:
            raise LimitExceeded("nfa_states", self._allowed, number + 1)
        self._moves.append([])
        self._silent.append([])
        return number

    def move(self, source: int, codes: CharSet, target: int) -> None:
        """A move that reads one code of a set; of the empty set, none."""
        if codes:
            self._moves[source].append((self._labels.setdefault(codes, len(self._labels)), target))

    def link(self, source: int, target: int) -> None:
        """A silent move."""
        self._silent[source].append(target)

    def chain(self, source: int, target: int, length: int) -> list[int]:
        """States for `length` parts one behind the other: `source`, new ones, `target`."""
        assert length > 0
        return [source, *(self.state() for _ in range(length - 1)), target]

    def repeated(self, source: int, target: int, minimum: int, maximum: int | None) -> list[Span]:
        """Between which states the copies of a repeated part stand; the way past the optional ones is laid here."""
        at = source
        copies: list[Span] = []
        for _ in range(minimum if maximum is None else maximum):
            if len(copies) >= minimum:
                self.link(at, target)
            after = self.state()
            copies.append((at, after))
            at = after
        if maximum is None:
            loop = self.state()
            self.link(at, loop)
            copies.append((loop, loop))
            at = loop
        self.link(at, target)
        return copies

    def finish(self, start: int, end: int) -> Nfa:
        """The finished automaton."""
        return Nfa(tuple(self._labels), tuple(map(tuple, self._moves)), tuple(map(tuple, self._silent)), start, end)
