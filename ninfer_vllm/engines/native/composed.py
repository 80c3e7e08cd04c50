"""The walks of a grammar's automaton, which take from units what those know."""

from __future__ import annotations

from typing import Any

from ninfer_vllm.engines.native.arrays import PORTAL, Grid, Ints, Words
from ninfer_vllm.engines.native.automaton import Automaton
from ninfer_vllm.engines.native.kinds import Kind
from ninfer_vllm.engines.native.masks import Walker, in_state
from ninfer_vllm.engines.native.trie import Trie


class GrammarWalker(Walker):
    """Covers the states of a grammar's automaton. Not thread-safe: the owner holds its lock."""

    def __init__(self, automaton: Automaton, trie: Trie, words: int, *, keeps_exits: bool) -> None:
        super().__init__(automaton, trie, words, keeps_exits=keeps_exits)
        self._grammar = automaton

    def _composed(self, state: int) -> tuple[Words, Ints] | None:
        automaton = self._grammar
        if not automaton.tables.flags[state] & PORTAL:
            return None
        row: Words | None = None
        exits: list[Ints] = []
        units, others = self._parts(state)
        for (unit, inner_state, after), stack in units:
            inner = unit.covered(inner_state)
            if row is None:
                row = inner.row.copy()
            else:
                row |= inner.row
            if len(inner.exits):
                behind = automaton.enter(((after, stack),))
                exits.append(self.walk_on(self.below(inner.exits), behind, row))
                if automaton.accepts(behind):
                    exits.append(inner.exits)
        assert row is not None
        if others is not None:
            rest = self.covered(others)
            row |= rest.row
            exits.append(rest.exits)
        return row, self._joined(exits)

    def _through(self, state: int, ranges: Grid, row: Words) -> tuple[list[Grid], list[Ints]]:
        automaton = self._grammar
        stretches: list[Grid] = []
        exits: list[Ints] = []
        units, others = self._parts(automaton.near(state))
        for (unit, inner_state, after), stack in units:
            found = unit.walk_on(ranges, inner_state, row)
            if len(found):
                behind = automaton.enter(((after, stack),))
                exits.append(self.walk_on(self.below(found), behind, row))
                if automaton.accepts(behind):
                    exits.append(found)
        if others is not None:
            stretches.append(in_state(ranges, others))
        return stretches, exits

    def _parts(self, state: int) -> tuple[list[tuple[tuple[Any, ...], int]], int | None]:
        """The units in which a portal stands, each with the stack behind it, and the state of everything else."""
        positions = self._grammar.positions
        units: list[tuple[tuple[Any, ...], int]] = []
        others: dict[int, int] = {}
        for position, stack in self._grammar.configs[state]:
            if positions.kinds[position] is Kind.UNIT:
                units.append((positions.parts[position], stack))
            else:
                others[position] = stack
        return units, self._grammar.state(others) if others else None
