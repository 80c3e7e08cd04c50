"""The walks of a grammar's automaton, which take from units what those know."""

from __future__ import annotations

from typing import Any

import numpy as np

from ninfer_vllm.engines.native.arrays import PORTAL, Grid, Ints, Octets, Words
from ninfer_vllm.engines.native.automaton import Automaton
from ninfer_vllm.engines.native.kinds import Kind
from ninfer_vllm.engines.native.masks import NO_NODES, NO_SKIPS, Walker, in_state
from ninfer_vllm.engines.native.trie import Trie

Parts = tuple[list[tuple[tuple[Any, ...], int]], int | None]
"""The units in which a portal stands, each with the stack behind it, and the state of everything else."""


class GrammarWalker(Walker):
    """Covers the states of a grammar's automaton. Not thread-safe: the owner holds its lock."""

    def __init__(self, automaton: Automaton, trie: Trie, words: int, *, keeps_exits: bool) -> None:
        super().__init__(automaton, trie, words, keeps_exits=keeps_exits)
        self._grammar = automaton
        self._known_parts: dict[int, Parts] = {}
        self._last_known: tuple[Words | None, Octets] = None, NO_SKIPS
        """The row that was last built upon, and what it lacks."""

    def _composed(self, state: int) -> tuple[Words, Ints] | None:
        automaton = self._grammar
        if not automaton.tables.flags(state) & PORTAL:
            return None
        row: Words | None = None
        exits: list[Ints] = []
        units, others = self._parts(state)
        if others is not None and self._may_skip(others):
            return self._upon(automaton.without(state, others), others)
        for (unit, inner_state, after), stack in units:
            inner = unit.covered(inner_state)
            row = inner.row if row is None else row | inner.row
            if len(inner.exits):
                row = row if row.flags.writeable else row.copy()
                behind = automaton.enter(((after, stack),))
                skipped = self.lacking(row) if self._may_skip(behind) else NO_SKIPS
                exits.append(self.walk_on(inner.below, behind, row, skipped))
                if automaton.accepts(behind):
                    exits.append(inner.exits)
        assert row is not None
        if others is not None:
            rest = self.covered(others)
            row = row | rest.row
            exits.append(rest.exits)
        return row, self._joined(exits)

    def _may_skip(self, state: int) -> bool:
        """Whether a walk in a state may skip what its row has already, and that is worth finding out."""
        return not (self._keeps_exits or self._grammar.tables.reads_text(state)) and self.is_wide(state)

    def _upon(self, part: int, rest: int) -> tuple[Words, Ints]:
        """The tokens of a state by those of its parts, where the first is likely to come again."""
        known = self.covered(part).row
        row = known.copy()
        if known is not self._last_known[0]:
            self._last_known = known, self.lacking(row)
        self.walk_on(self._trunk, rest, row, self._last_known[1])
        return row, NO_NODES

    def _over(self, state: int) -> tuple[Words, Ints] | None:
        lasting = self._grammar.common(state, self.most_frequent(state))
        if lasting is None or not self.is_wide(lasting):
            return None
        if lasting != state:
            return None if lasting in self._open else self._upon(lasting, self._grammar.without(state, lasting))
        confined = self._grammar.confined(state)
        if confined is None:
            return None
        row = np.zeros(self._words, np.uint32)
        self._walk(in_state(self._trunk, confined), row)
        self._walk(in_state(self._trunk, state), row, self.lacking(row))
        return row, NO_NODES

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

    def _parts(self, state: int) -> Parts:
        found = self._known_parts.get(state)
        if found is None:
            found = self._known_parts[state] = self._taken_apart(state)
        return found

    def _taken_apart(self, state: int) -> Parts:
        positions = self._grammar.positions
        units: list[tuple[tuple[Any, ...], int]] = []
        others: dict[int, int] = {}
        for position, stack in self._grammar.configs[state]:
            if positions.kinds[position] is Kind.UNIT:
                units.append((positions.parts[position], stack))
            else:
                others[position] = stack
        return units, self._grammar.state(others) if others else None
