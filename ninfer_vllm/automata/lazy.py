"""Deterministic automata by subset construction, state by state as they are reached, or all at once.

Theory of operation. A state is the set of the states that the nondeterministic automaton may be in, reduced to those
that matter: the ones with a move, and the end. The labels that leave a set are cut into blocks that lie inside or
outside each label; a block leads to one set. Sets that hold a state which accepts every text are one state: nothing
can tell them apart any more. Every member of every set that is met counts as a step, and steps are limited, so an
expression that would explode is refused while it is small.
"""

from __future__ import annotations

from functools import cache

from ninfer_vllm.automata.algebra import explore
from ninfer_vllm.automata.charset import ANY, CharSet, Range, blocks
from ninfer_vllm.automata.dfa import Dfa, Edge
from ninfer_vllm.automata.nfa import Nfa
from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.limits import AUTOMATON_STEPS

Members = frozenset[int]

MEMBERS_A_STEP = 2
"""Members of a set that are joined in the time of one step of work."""


def determinise(nfa: Nfa) -> Dfa:
    """The complete deterministic automaton of the same language.

    Errors: LimitExceeded beyond `REGULAR_STATES` states or `AUTOMATON_STEPS` steps.
    """
    return LazyDfa(nfa).complete()


class LazyDfa:
    """A deterministic automaton whose states are found when they are first reached; state 0 is the start."""

    def __init__(self, nfa: Nfa, allowed: int = AUTOMATON_STEPS) -> None:
        self._nfa = nfa
        self._allowed = allowed
        self._steps = 0
        self._closures: dict[int, Members] = {}
        self._cut = cache(self._blocks)
        self._numbers: dict[Members, int] = {}
        self._members: list[Members] = []
        self._edges: dict[int, tuple[Edge, ...]] = {}
        self._swallowing = self._universal_states()
        self._number(self._closure(nfa.start))

    def __len__(self) -> int:
        return len(self._members)

    def edges(self, state: int) -> tuple[Edge, ...]:
        """Disjoint sets of codes with the states they lead to."""
        found = self._edges.get(state)
        if found is None:
            found = self._edges[state] = self._leaving(self._members[state])
        return found

    def step(self, state: int, code: int) -> int | None:
        """The state after one code, or None where it is rejected."""
        return next((target for codes, target in self.edges(state) if code in codes), None)

    def is_accepting(self, state: int) -> bool:
        """Whether a text may end here."""
        return self._nfa.end in self._members[state]

    def accepts(self, text: str) -> bool:
        """Whether the whole text is in the language; only the states on its way are built."""
        state = 0
        for char in text:
            target = self.step(state, ord(char))
            if target is None:
                return False
            state = target
        return self.is_accepting(state)

    def complete(self) -> Dfa:
        """All states that the start leads to."""
        return explore(0, self.edges, self.is_accepting)

    def _leaving(self, members: Members) -> tuple[Edge, ...]:
        groups: dict[int, list[int]] = {}
        for member in members:
            for label, target in self._nfa.moves[member]:
                groups.setdefault(label, []).append(target)
        ranges: dict[int, list[Range]] = {}
        for codes, labels in self._cut(tuple(sorted(groups))):
            parts = [self._closure(target) for label in labels for target in groups[label]]
            self._spend(sum(map(len, parts)))
            target = self._number(parts[0] if len(parts) == 1 else frozenset().union(*parts))
            ranges.setdefault(target, []).extend(codes.ranges)
        return tuple((CharSet.from_ranges(found), target) for target, found in ranges.items())

    def _blocks(self, labels: tuple[int, ...]) -> list[tuple[CharSet, tuple[int, ...]]]:
        found = blocks([self._nfa.labels[label] for label in labels])
        return [(codes, tuple(labels[index] for index in members)) for codes, members in found]

    def _number(self, members: Members) -> int:
        for state in self._swallowing:
            if state in members:
                members = self._swallowing[state]
                break
        number = self._numbers.get(members)
        if number is None:
            number = self._numbers[members] = len(self._members)
            self._members.append(members)
        return number

    def _closure(self, state: int) -> Members:
        """What matters of the states that silent moves lead to."""
        found = self._closures.get(state)
        if found is None:
            seen = {state}
            todo = [state]
            while todo:
                for target in self._nfa.silent[todo.pop()]:
                    if target not in seen:
                        seen.add(target)
                        todo.append(target)
            self._spend(len(seen))
            found = frozenset(member for member in seen if self._nfa.moves[member] or member == self._nfa.end)
            self._closures[state] = found
        return found

    def _universal_states(self) -> dict[int, Members]:
        """States that accept every text, each with its closure."""
        if ANY not in self._nfa.labels:
            return {}
        label = self._nfa.labels.index(ANY)
        found = {}
        for state, moves in enumerate(self._nfa.moves):
            if (label, state) in moves:
                closure = self._closure(state)
                if self._nfa.end in closure:
                    found[state] = closure
        return found

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > self._allowed:
            raise LimitExceeded("automaton_steps", self._allowed, self._steps)
        spend(steps // MEMBERS_A_STEP)
