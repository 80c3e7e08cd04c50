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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ninfer_vllm.engines.native.arrays import DEAD, PORTAL, Grid, Ints, Octets, Words
from ninfer_vllm.engines.native.compiled import compiled_kernels
from ninfer_vllm.engines.native.kinds import WIDE, Segment
from ninfer_vllm.engines.native.tables import BYTES, Tables
from ninfer_vllm.engines.native.trie import Trie

NO_NODES: Ints = np.zeros(0, np.int32)
NO_STRETCHES: Grid = np.zeros((0, 4), np.int32)
NO_SKIPS: Octets = np.zeros(0, np.uint8)

LEFT_OUT = 1024
"""Stretches that a walk may leave out before they are looked at."""

NEEDS = 64
"""Transitions that a walk may miss before they are computed."""


FEW = 6
"""Ranges of bytes up to which a new state gets all its transitions at once."""


class Walkable(Protocol):
    """An automaton whose states can be walked."""

    tables: Tables

    def near(self, state: int) -> int:
        """The state no single token can tell from this one."""

    def alike(self, state: int) -> tuple[int, int] | None:
        """A simpler state that no token of up to so many bytes can tell from this one, and how many; None without."""

    def num_live(self, state: int) -> int:
        """How many different bytes a state reads."""

    def expand(self, state: int) -> None:
        """Give a state its byte classes, where it has none."""

    def target(self, state: int, byte_class: int) -> int:
        """The state behind a byte of a class."""

    def supply(self, state: int, byte: int) -> None:
        """Compute a transition that a walk has missed."""

    def segments(self, state: int) -> tuple[Segment, ...]:
        """The bytes a state reads, in classes."""


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
        """The kept row that is equal to this one, or this one, which must not change any more.

        A row that somebody keeps already is given back.
        """
        if not row.flags.writeable:
            return row
        digest = int(compiled_kernels().digest(row))
        alike = self._alike.setdefault(digest, [])
        for known in alike:
            if (known == row).all():
                return known
        row.flags.writeable = False
        alike.append(row)
        self.nbytes += row.nbytes
        return row


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
        self._open: set[int] = set()
        """States whose shortcut is being taken: who needs them for it is walked as it is."""
        self._exit_bytes = 0
        self._idle: list[_Walking] = []
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
                found = self._covered[near] = Covered(self.rows.shared(row), exits)
                self._exit_bytes += exits.nbytes
            self._covered[state] = found
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
        compiled_kernels().clear_outside(self._trie, skipped, row)
        exits = known.exits[skipped[known.exits] > 0]
        return row, self._joined([exits, self._walk(in_state(self._trunk, state), row, skipped)])

    def _walked(self, state: int) -> tuple[Words, Ints]:
        row = np.zeros(self._words, np.uint32)
        return row, self._walk(self._entrance(state), row)

    def _entrance(self, state: int) -> Grid:
        """What a state reads of the trie; where that is little, whatever comes next is known already."""
        segments = self._automaton.segments(state)
        if len(segments) > FEW:
            return in_state(self._trunk, state)
        found = []
        for low, high, _ in segments:
            first, last = self._branches[low], self._branches[high + 1]
            if first < last:
                self._automaton.supply(state, low)
                found.append((first, last, state, 0))
        return np.array(found, np.int32) if found else NO_STRETCHES

    def lacking(self, row: Words) -> Octets:
        """What a walk for a row may skip: the nodes whose subtrees it has already. Exits are not looked for there."""
        found: Octets = compiled_kernels().full_below(self._trie, row)
        return found

    def below(self, nodes: Ints) -> Grid:
        """The stretches below some nodes, in no state yet."""
        found: Grid = compiled_kernels().stretches_below(self._end, nodes)
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
        tables = self._automaton.tables
        self._automaton.expand(state)
        start = tables.map_of[state]
        counts = np.bincount(tables.maps[start : start + BYTES])
        counts[0] = 0
        return self._automaton.target(state, int(counts.argmax()))

    def walk_on(self, ranges: Grid, state: int, row: Words, skipped: Octets = NO_SKIPS) -> Ints:
        """Add the tokens on some stretches to the row, all in this state instead; the exits met on the way.

        Subtrees of nodes that are `skipped` stay as they are.
        """
        near = self._automaton.near(state)
        if self._automaton.tables.flags[near] & PORTAL:
            stretches, exits = self._through(near, ranges, row)
        else:
            stretches, exits = [in_state(ranges, near)], []
        return self._joined([*exits, *(self._walk(found, row, skipped) for found in stretches)])

    def _through(self, state: int, ranges: Grid, row: Words) -> tuple[list[Grid], list[Ints]]:
        """Walk the parts of a portal that other automata know; what is left to walk, and the exits met."""
        raise NotImplementedError

    def _walk(self, stretches: Grid, row: Words, skipped: Octets = NO_SKIPS) -> Ints:
        """Add the tokens on the stretches to the row; the exits met on the way."""
        automaton, kernel = self._automaton, compiled_kernels().walk
        walking = self._idle.pop() if self._idle else _Walking(self._room, self._levels, 4)
        found = walking.start(row)
        exits: list[Ints] = []

        def step(some: Grid, place: Ints) -> bool:
            return bool(kernel(self._trie, automaton.tables.arrays, some, place, walking.stack, found, skipped))

        walking.run(automaton, stretches, step, lambda missed: self._left_out(missed, row, exits))
        all_exits = self._joined([walking.exits, *exits])
        self._idle.append(walking)
        return all_exits

    def _left_out(self, missed: Grid, row: Words, exits: list[Ints]) -> list[Grid]:
        """The stretches to walk for those that were left out; those below portals are walked as far as others can."""
        below = missed[:, 3] < 0
        portals = missed[below]
        todo = [missed[~below]]
        for state in dict.fromkeys(portals[:, 2].tolist()):
            stretches, found = self._through(state, portals[portals[:, 2] == state], row)
            todo.extend(stretches)
            exits.extend(found)
        return todo

    def _joined(self, exits: list[Ints]) -> Ints:
        """All exits in order, where they are wanted."""
        if not self._keeps_exits:
            return NO_NODES
        return np.sort(exits[0]) if len(exits) == 1 else np.unique(np.concatenate((NO_NODES, *exits)))

    def _beside(self, state: int, other: int) -> tuple[Words, Ints]:
        """The tokens of a wide state by those of another one."""
        automaton, kernel = self._automaton, compiled_kernels().walk_beside
        known = self.covered(other)
        row = known.row.copy()
        walking = _Walking(self._room, self._levels, 6)
        found = walking.start(row)
        stacks = (walking.stack, _new_stack(self._levels))

        def step(some: Grid, place: Ints) -> bool:
            return bool(kernel(self._trie, automaton.tables.arrays, known.exits, some, place, stacks, found))

        first = np.array(((1, self._end[0], state, 0, other, 0),), np.int32)
        walking.run(automaton, first, step, lambda missed: [missed])
        return row, np.sort(walking.exits)


class _Walking:
    """What the calls of one walk leave for the next one; used again by later walks."""

    def __init__(self, room: int, levels: int, width: int) -> None:
        self.stack = _new_stack(levels)
        self._exits = np.empty(room, np.int32)
        self._missing = np.empty((LEFT_OUT, width), np.int32)
        self._needs = np.empty((NEEDS, 3), np.int32)
        self._place = np.zeros(6, np.int32)

    def start(self, row: Words) -> tuple[Words, Ints, Grid, Grid]:
        """Begin a walk that fills a row; what the kernels find goes here."""
        self._place.fill(0)
        return row, self._exits, self._missing, self._needs

    @property
    def exits(self) -> Ints:
        """The exits so far."""
        return self._exits[: self._place[2]]

    def run(
        self,
        automaton: Walkable,
        stretches: Grid,
        step: Callable[[Grid, Ints], bool],
        left_out: Callable[[Grid], list[Grid]],
    ) -> None:
        """Walk the stretches, and then those that were left out, until none is."""
        place = self._place
        while len(stretches):
            todo: list[Grid] = []
            place[:2] = 0, -1
            is_over = False
            while not is_over:
                is_over = step(stretches, place)
                if place[3] or place[4]:
                    num_portals = place[5]
                    missed = self._missed(automaton)
                    todo.extend(left_out(missed) if num_portals else [missed])
            stretches = todo[0] if len(todo) == 1 else np.concatenate(todo) if todo else NO_STRETCHES

    def _missed(self, automaton: Walkable) -> Grid:
        """The stretches that were left out, once the transitions they need are computed."""
        for state, byte_class, byte in self._needs[: self._place[4]].tolist():
            if byte_class < 0:
                automaton.expand(state)
                self._supply_few(automaton, state, byte)
            else:
                automaton.supply(state, byte)
        self._place[4] = 0
        return self._missing[: self._place[3]].copy()

    def _supply_few(self, automaton: Walkable, state: int, byte: int) -> None:
        """Compute all transitions of a state with few, since a walk will need them; of others that of the byte."""
        segments = automaton.tables.segments(state)
        if len(segments) > FEW:
            automaton.supply(state, byte)
            return
        for low, _, _ in segments:
            automaton.supply(state, low)


def in_state(ranges: Grid, state: int) -> Grid:
    """The same stretches, all in one state."""
    found: Grid = compiled_kernels().stretches_in_state(ranges, state)
    return found


def _new_stack(levels: int) -> tuple[Ints, Ints]:
    """Room for a state and an offset a level."""
    return np.zeros(levels, np.int32), np.zeros(levels, np.int32)
