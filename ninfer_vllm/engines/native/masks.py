"""The tokens that each state takes, found by walking the vocabulary's trie once a state.

Theory of operation. A narrow state is walked as it is: dead subtrees are skipped, so the cost is that of what is legal.
A wide state, such as one inside a string, takes most of the vocabulary, and a walk costs milliseconds. Shortcuts leave
only exceptions:

- Free text up to a fixed byte, or a number, is a unit, an automaton of its own that grammars share. Which tokens stay
  inside it is found once a unit; so are its exits, the trie nodes at which it can end before the token does. A state
  of the grammar that stands in a unit copies the unit's row and walks only the exits' subtrees, from what follows.
- A state that behaves for most bytes as its most frequent successor does, as the first character of a name does, takes
  that one's row and walks only where the two part.
- A state that only a long token can tell from another one, as 40 more characters of any number of them, takes that
  one's row and walks the long tokens.
- A state of which a part never goes away, as the free text before a mark, takes that part's row and walks the rest only
  where tokens are still missing.

A state with several configurations takes the union of their rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ninfer_vllm.engines.native.arrays import DEAD, PORTAL, Grid, Ints, Octets, Words
from ninfer_vllm.engines.native.compiled import compiled_kernels, compiled_row_kernels
from ninfer_vllm.engines.native.kinds import WIDE
from ninfer_vllm.engines.native.rowstore import RowStore
from ninfer_vllm.engines.native.trie import Trie
from ninfer_vllm.engines.native.walking import NO_DENSE, Walkable, Walking

NO_NODES: Ints = np.zeros(0, np.int32)
NO_STRETCHES: Grid = np.zeros((0, 4), np.int32)
NO_SKIPS: Octets = np.zeros(0, np.uint8)

FEW = 6
"""Ranges of bytes up to which a walk begins at the first bytes that a state reads."""


class Covered(NamedTuple):
    """The tokens of a state by their bytes, the trie nodes with a subtree at which the text can end, and what is below.

    `below` is in no state yet.
    """

    row: Words
    exits: Ints
    below: Grid


class Walker:
    """Covers the states of one automaton. Not thread-safe: the owner holds its lock."""

    def __init__(self, automaton: Walkable, trie: Trie, words: int, *, keeps_exits: bool) -> None:
        self._automaton = automaton
        self._trie = trie.arrays
        self._deepest = trie.deepest
        self._branches = trie.branches
        self._end = trie.end
        self._trunk: Grid = np.array(((1, self._end[0], DEAD, 0),), np.int32)[: self._end[0] - 1]
        """Everything below the root, in no state yet."""
        self._words = words
        self._keeps_exits = keeps_exits
        self._room = len(trie.byte) if keeps_exits else 0
        self._levels = trie.max_depth + 1
        self._covered: dict[int, Covered] = {}
        self._without_exits: dict[int, Covered] = {}
        """By the identities of their rows, which are kept."""
        self._open: set[int] = set()
        """States whose shortcut is being taken: who needs them for it is walked as it is."""
        self._exit_bytes = 0
        self._rooms = trie.rooms
        self.rows = RowStore()

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept."""
        return self.rows.nbytes + self._exit_bytes

    def covered(self, state: int) -> Covered:
        """The tokens of a state."""
        found = self._covered.get(state)
        if found is None:
            near = self._automaton.near(state)
            found = self._covered.get(near)
            if found is None:
                row, exits = self._walked(near) if near in self._open else self._cover(near)
                found = self._covered[near] = self._kept(self.rows.shared(row), exits)
            self._covered[state] = found
        return found

    def _kept(self, row: Words, exits: Ints) -> Covered:
        """The row with its exits; where there are none, one value for all states with the row."""
        if len(exits):
            below = self.below(exits)
            self._exit_bytes += exits.nbytes + below.nbytes
            return Covered(row, exits, below)
        found = self._without_exits.get(id(row))
        if found is None:
            found = self._without_exits[id(row)] = Covered(row, NO_NODES, NO_STRETCHES)
        return found

    def _cover(self, state: int) -> tuple[Words, Ints]:
        self._open.add(state)
        try:
            found = self._composed(state)
            if found is None and not self._automaton.tables.reads_text(state) and self.is_wide(state):
                found = self._shortened(state)
            return self._walked(state) if found is None else found
        finally:
            self._open.discard(state)

    def is_wide(self, state: int) -> bool:
        """Whether a walk from a state is worth a shortcut."""
        return self._automaton.num_live(state) >= WIDE

    def _shortened(self, state: int) -> tuple[Words, Ints] | None:
        """The tokens of a wide state by those of another one, where there is one that helps."""
        beside = self._neighbour(state)
        if beside is not None:
            return self._beside(state, beside)
        found = None if self._keeps_exits else self._over(state)
        if found is None:
            alike = self._automaton.alike(state)
            found = None if alike is None or alike[0] in self._open else self._aside(state, *alike)
        return found

    def _composed(self, state: int) -> tuple[Words, Ints] | None:
        """The tokens of a state whose parts are known elsewhere."""
        del state
        return None

    def _over(self, state: int) -> tuple[Words, Ints] | None:
        """The tokens of a wide state by those of a part of it that stays whatever is read."""
        del state
        return None

    def _aside(self, state: int, other: int, num_bytes: int) -> tuple[Words, Ints]:
        """The tokens of a state by those of one that only tokens of more than `num_bytes` bytes can tell from it."""
        known = self.covered(other)
        row = known.row.copy()
        skipped = (self._deepest <= num_bytes).view(np.uint8)
        compiled_row_kernels().clear_outside(self._trie, skipped, row)
        exits = known.exits[skipped[known.exits] > 0]
        return row, self._joined([exits, self._walk(in_state(self._trunk, state), row, skipped)])

    def _walked(self, state: int) -> tuple[Words, Ints]:
        row = np.zeros(self._words, np.uint32)
        stretches = self._entrance(state)
        return row, self._walk(stretches, row, is_wide=stretches is not NO_STRETCHES and self.is_wide(state))

    def _entrance(self, state: int) -> Grid:
        """What a state reads of the trie; where that is little, whatever comes next is known already."""
        segments = self._automaton.segments(state)
        if len(segments) > FEW:
            return in_state(self._trunk, state)
        branches = self._branches
        found = [
            (branches[low], branches[high + 1], state, low)
            for low, high, _ in segments
            if branches[low] < branches[high + 1]
        ]
        if not found:
            return NO_STRETCHES
        self._automaton.supply([(state, 0, low) for _, _, _, low in found])
        stretches: Grid = np.array(found, np.int32)
        stretches[:, 3] = 0
        return stretches

    def lacking(self, row: Words) -> Octets:
        """What a walk for a row may skip: the nodes whose subtrees it has already. Exits are not looked for there."""
        found: Octets = compiled_row_kernels().full_below(self._trie, row)
        return found

    def below(self, nodes: Ints) -> Grid:
        """The stretches below some nodes, in no state yet."""
        found: Grid = compiled_row_kernels().stretches_below(self._end, nodes)
        return found

    def _neighbour(self, state: int) -> int | None:
        """The most frequent successor, where that is its own most frequent successor."""
        successor = self.most_frequent(state)
        if successor == state or self._automaton.near(successor) != successor:
            return None
        if self._automaton.num_live(successor) < WIDE:
            return None
        return successor if self.most_frequent(successor) == successor else None

    def most_frequent(self, state: int) -> int:
        """The state behind most bytes."""
        self._automaton.expand(state)
        return self._automaton.target(state, self._automaton.tables.widest_class(state))

    def walk_on(self, ranges: Grid, state: int, row: Words, skipped: Octets = NO_SKIPS) -> Ints:
        """Add the tokens on some stretches to the row, all in this state instead; the exits met on the way.

        Subtrees of nodes that are `skipped` stay as they are.
        """
        near = self._automaton.near(state)
        if self._automaton.tables.flags(near) & PORTAL:
            stretches, exits = self._through(near, ranges, row)
        else:
            stretches, exits = [in_state(ranges, near)], []
        return self._joined([*exits, *(self._walk(found, row, skipped) for found in stretches)])

    def _through(self, state: int, ranges: Grid, row: Words) -> tuple[list[Grid], list[Ints]]:
        """Walk the parts of a portal that other automata know; what is left to walk, and the exits met."""
        raise NotImplementedError

    def _walk(self, stretches: Grid, row: Words, skipped: Octets = NO_SKIPS, *, is_wide: bool = False) -> Ints:
        """Add the tokens on the stretches to the row; the exits met on the way. Wide walks see most of the trie."""
        automaton, kernel = self._automaton, compiled_kernels().walk
        walking = self._walking(2)
        exits: list[Ints] = []

        def step(some: Grid) -> bool:
            arrays = automaton.tables.arrays
            dense = walking.dense(len(arrays[0])) if is_wide else NO_DENSE
            return kernel(  # type: ignore[no-any-return]
                self._trie, arrays, some, walking.place, walking.stack, walking.found(row), skipped, dense
            )

        walking.run(automaton, stretches, step, lambda portals: self._past(portals, row, exits))
        if self._keeps_exits:
            exits.append(walking.exits_in_order())
        self._over_with(walking)
        return self._joined(exits)

    def _walking(self, width: int) -> Walking:
        """Room for a walk with a stack of so many numbers a level."""
        try:
            idle: Walking = self._rooms.setdefault((width, self._room), []).pop()
        except IndexError:
            # None is idle; another thread may have taken the last one.
            return Walking(self._room, self._levels, width)
        return idle

    def _over_with(self, walking: Walking) -> None:
        self._rooms[walking.width, self._room].append(walking)

    def _past(self, portals: Grid, row: Words, exits: list[Ints]) -> list[Grid]:
        """Walk what is below portals as far as other automata can; the stretches that are left."""
        behind = portals[:, 2].tolist()
        todo: list[Grid] = []
        for state in dict.fromkeys(behind):
            own = portals if behind.count(state) == len(behind) else portals[portals[:, 2] == state]
            stretches, found = self._through(state, own, row)
            todo.extend(stretches)
            exits.extend(found)
        return todo

    def _joined(self, exits: list[Ints]) -> Ints:
        """All exits in order, where they are wanted."""
        if not self._keeps_exits:
            return NO_NODES
        return exits[0] if len(exits) == 1 else np.unique(np.concatenate((NO_NODES, *exits)))

    def _beside(self, state: int, other: int) -> tuple[Words, Ints]:
        """The tokens of a wide state by those of another one."""
        automaton, kernel = self._automaton, compiled_kernels().walk_beside
        known = self.covered(other)
        row = known.row.copy()
        walking = self._walking(4)

        def step(some: Grid) -> bool:
            return kernel(  # type: ignore[no-any-return]
                self._trie, automaton.tables.arrays, known.exits, some, walking.place, walking.stack, walking.found(row)
            )

        first = np.array(((1, self._end[0], state, 0, other, 0),), np.int32)
        walking.run(automaton, first, step, lambda portals: [])
        exits = walking.exits_in_order()
        self._over_with(walking)
        return row, exits


def in_state(ranges: Grid, state: int) -> Grid:
    """The same stretches, which are in no state, all in one."""
    found = ranges.copy()
    found[:, 2] = state
    return found
