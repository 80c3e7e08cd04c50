"""Deterministic automata over Unicode scalar values: the value of a regular terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.work import spend

Edge = tuple[CharSet, int]


@dataclass(frozen=True)
class Dfa:
    """A deterministic automaton whose edges carry character sets.

    States are 0 … len(edges) - 1 and state 0 is the start. `edges[s]` holds disjoint, non-empty character sets with
    their target states; a character in none of them is rejected.
    """

    edges: tuple[tuple[Edge, ...], ...]
    accepting: frozenset[int]

    def __hash__(self) -> int:
        # Equal automata begin alike; to hash all edges of a large one takes milliseconds.
        return hash((len(self.edges), self.edges[0], self.accepting))

    @cached_property
    def sets(self) -> tuple[CharSet, ...]:
        """The sets of the edges: a set that edges share comes once."""
        return _distinct(self.edges)

    @cached_property
    def ascii_behind(self) -> int:
        """The ASCII characters that may follow an accepted text, as bits."""
        found = 0
        for chars in _distinct(self.edges[state] for state in self.accepting):
            for low, high in chars.ranges:
                if low < 0x80:
                    found |= (2 << min(high, 0x7F)) - (1 << low)
        return found

    @cached_property
    def is_trim(self) -> bool:
        """Whether every state can still accept and every set has a character."""
        alive = set(self.accepting)
        size = -1
        # Automata are mostly numbered from the start on, so two rounds from the back settle nearly all.
        while size < len(alive) < len(self.edges):
            size = len(alive)
            for state in range(len(self.edges) - 1, -1, -1):
                if state not in alive and any(target in alive for _, target in self.edges[state]):
                    alive.add(state)
        return len(alive) == len(self.edges) and all(self.sets)

    def step(self, state: int, code: int) -> int | None:
        """The state after one character, or None where it is rejected."""
        for chars, target in self.edges[state]:
            if code in chars:
                return target
        return None

    def accepts(self, text: str) -> bool:
        """Whether the whole text is in the language."""
        state = 0
        spend(1 + len(text))
        for char in text:
            target = self.step(state, ord(char))
            if target is None:
                return False
            state = target
        return state in self.accepting

    def trimmed(self) -> Dfa:
        """The same language with only states that are reachable and can still accept; the start always stays."""
        alive = self._reachable() & self._productive() | {0}
        number = {state: at for at, state in enumerate(sorted(alive))}
        edges = tuple(
            tuple((chars, number[target]) for chars, target in self.edges[state] if target in number)
            for state in sorted(alive)
        )
        return Dfa(edges, frozenset(number[state] for state in self.accepting if state in number))

    @property
    def is_empty(self) -> bool:
        """Whether no text is accepted."""
        return 0 not in self._productive()

    def _reachable(self) -> set[int]:
        return _closure([0], [[target for _, target in outgoing] for outgoing in self.edges])

    def _productive(self) -> set[int]:
        sources: list[list[int]] = [[] for _ in self.edges]
        for state, outgoing in enumerate(self.edges):
            for _, target in outgoing:
                sources[target].append(state)
        return _closure(self.accepting, sources)


def _distinct(edges: Iterable[tuple[Edge, ...]]) -> tuple[CharSet, ...]:
    return tuple({id(chars): chars for outgoing in edges for chars, _ in outgoing}.values())


def _closure(start: Iterable[int], neighbours: list[list[int]]) -> set[int]:
    spend(len(neighbours))
    seen = set(start)
    todo = list(seen)
    while todo:
        for state in neighbours[todo.pop()]:
            if state not in seen:
                seen.add(state)
                todo.append(state)
    return seen
