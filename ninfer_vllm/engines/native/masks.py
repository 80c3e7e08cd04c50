"""The tokens that each state takes, found by walking the vocabulary's trie once a state.

Theory of operation. A narrow state is walked as it is: dead subtrees are skipped, so the cost is that of what is legal.
A wide state, such as one inside a string, takes most of the vocabulary, and a walk costs milliseconds. Two shortcuts
leave only exceptions:

- Free text up to a fixed byte is a unit, an automaton of its own that all grammars share. Which tokens stay inside it
  is found once a unit; so are its exits, the trie nodes at which it can end before the token does. A state of the
  grammar that stands in a unit copies the unit's row and walks only the exits' subtrees, from what follows the unit.
- A state that behaves for most bytes as its most frequent successor does, as the first character of a name does, takes
  that one's row and walks only where the two part.

A state with several configurations takes the union of their rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ninfer_vllm.engines.native.arrays import UNKNOWN, Ints, Words
from ninfer_vllm.engines.native.automaton import Automaton
from ninfer_vllm.engines.native.compiled import compiled_kernels
from ninfer_vllm.engines.native.kinds import Kind
from ninfer_vllm.engines.native.tables import BYTES
from ninfer_vllm.engines.native.trie import Trie
from ninfer_vllm.engines.native.utf8 import WIDE

NO_NODES: Ints = np.zeros(0, np.int32)
ROOT_NODE: Ints = np.zeros(1, np.int32)
PLACES = 8
"""Numbers a walk keeps while it is stopped."""


@dataclass(frozen=True, slots=True, eq=False)
class Covered:
    """The tokens of a state by their bytes, and the trie nodes with a subtree at which the text can end."""

    row: Words
    exits: Ints


class RowStore:
    """Rows that stay as they are, equal ones kept once."""

    def __init__(self) -> None:
        self._alike: dict[int, list[Words]] = {}
        self.nbytes = 0

    def shared(self, row: Words) -> Words:
        """The kept row that is equal to this one, or this one, which must not change any more."""
        even = row[: len(row) // 2 * 2].view(np.uint64)
        alike = self._alike.setdefault(int(np.add.reduce(even)), [])
        for known in alike:
            if known is row or np.array_equal(known, row):
                return known
        row.flags.writeable = False
        alike.append(row)
        self.nbytes += row.nbytes
        return row


class Walker:
    """Covers the states of one automaton. Not thread-safe: the owner holds its lock."""

    def __init__(self, automaton: Automaton, trie: Trie, words: int, *, keeps_exits: bool) -> None:
        self._automaton = automaton
        self._trie = trie.arrays
        self._nodes = len(trie.byte)
        self._words = words
        self._keeps_exits = keeps_exits
        self._stack = _new_stack(trie.max_depth + 1)
        self._covered: dict[int, Covered] = {}
        self._open: set[int] = set()
        """States whose shortcut is being taken: who needs them for it is walked as it is."""
        self._exit_bytes = 0
        self.rows = RowStore()

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept."""
        return self.rows.nbytes + self._exit_bytes

    def covered(self, state: int) -> Covered:
        """The tokens of a state."""
        state = self._automaton.near(state)
        found = self._covered.get(state)
        if found is None:
            row, exits = self._walked(state) if state in self._open else self._cover(state)
            found = self._covered[state] = Covered(self.rows.shared(row), exits)
            self._exit_bytes += exits.nbytes
        return found

    def _cover(self, state: int) -> tuple[Words, Ints]:
        automaton = self._automaton
        if automaton.num_live(state) < WIDE:
            return self._walked(state)
        self._open.add(state)
        try:
            units = [config for config in automaton.configs[state] if automaton.positions.kinds[config[0]] is Kind.UNIT]
            if units:
                return self._around_units(state, units)
            beside = self._neighbour(state)
            return self._walked(state) if beside is None else self._beside(state, beside)
        finally:
            self._open.discard(state)

    def _walked(self, state: int) -> tuple[Words, Ints]:
        row = np.zeros(self._words, np.uint32)
        return row, self._walk(ROOT_NODE, state, row)

    def _around_units(self, state: int, units: list[tuple[int, int]]) -> tuple[Words, Ints]:
        automaton = self._automaton
        row: Words = np.zeros(self._words, np.uint32)
        exits: list[Ints] = []
        for position, stack in units:
            unit, inner_state, after = automaton.positions.parts[position]
            inner: Covered = unit.covered(inner_state)
            row |= inner.row
            behind = automaton.enter(((after, stack),))
            exits.append(self._walk(inner.exits, behind, row))
            if self._keeps_exits and automaton.accepts(behind):
                exits.append(inner.exits)
        others = {position: stack for position, stack in automaton.configs[state] if (position, stack) not in units}
        if others:
            rest = self.covered(automaton.state(others))
            row |= rest.row
            exits.append(rest.exits)
        return row, np.unique(np.concatenate(exits)) if self._keeps_exits else NO_NODES

    def _neighbour(self, state: int) -> int | None:
        """The most frequent successor, where that is its own most frequent successor."""
        successor = self._most_frequent(state)
        if successor == state or self._automaton.near(successor) != successor:
            return None
        if self._automaton.num_live(successor) < WIDE:
            return None
        return successor if self._most_frequent(successor) == successor else None

    def _most_frequent(self, state: int) -> int:
        tables = self._automaton.tables
        if tables.row_of[state] == UNKNOWN:
            self._automaton.expand(state)
        start = tables.map_of[state]
        counts = np.bincount(tables.maps[start : start + BYTES])
        counts[0] = 0
        byte_class = int(counts.argmax())
        target = tables.get(state, byte_class)
        return self._automaton.resolve(state, byte_class) if target == UNKNOWN else target

    def _walk(self, starts: Ints, state: int, row: Words) -> Ints:
        """Add the tokens below the start nodes to the row; the exits met on the way."""
        automaton, kernel = self._automaton, compiled_kernels().walk
        place = np.array([0, -1, state, 0, 0, 0, 0, 0], np.int32)
        exits = np.empty(self._nodes, np.int32) if self._keeps_exits else NO_NODES
        while not kernel(self._trie, automaton.tables.arrays, starts, place, self._stack, (row, exits)):
            automaton.supply(int(place[4]), int(place[5]))
        return exits[: place[3]].copy()

    def _beside(self, state: int, other: int) -> tuple[Words, Ints]:
        automaton, kernel = self._automaton, compiled_kernels().walk_beside
        known = self.covered(other)
        row = known.row.copy()
        place = np.array([1, state, other, 0, 0, 0, 0, 0], np.int32)
        exits = np.empty(self._nodes, np.int32) if self._keeps_exits else NO_NODES
        stacks = (self._stack, _new_stack(len(self._stack[0])))
        while not kernel(self._trie, automaton.tables.arrays, known.exits, place, stacks, (row, exits)):
            automaton.supply(int(place[5]), int(place[6]))
        return row, exits[: place[3]].copy()


def _new_stack(levels: int) -> tuple[Ints, Ints]:
    """Room for a state and an offset a level."""
    return np.zeros(levels, np.int32), np.zeros(levels, np.int32)
