"""One walk over the trie: it is called again and again, each time with what the last call has missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from ninfer_vllm.engines.native.arrays import (
    BEFORE,
    COUNT,
    EXITS,
    LEFT,
    NEEDS,
    NEXT_EXIT,
    NODE,
    NUM_DENSE,
    PORTALS,
    DenseArrays,
    Found,
    Grid,
    Ints,
    Words,
)
from ninfer_vllm.engines.native.kinds import Need, Segment
from ninfer_vllm.engines.native.tables import BYTES, Tables

NO_DENSE: DenseArrays = np.zeros((0, BYTES), np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32)

ROOM_LEFT = 1024
"""Stretches that a walk may leave out before it needs more room."""

ROOM_PORTALS = 64
"""Portals that a walk may meet before they are looked at."""

ROOM_DENSE = 256
"""States with a dense row in a walk over most of the trie."""

ROOM_NEEDS = 64
"""Transitions that a walk may miss before they are computed."""


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

    def supply(self, needs: Iterable[Need]) -> None:
        """Compute the classes and transitions that a walk has missed."""

    def segments(self, state: int) -> tuple[Segment, ...]:
        """The bytes a state reads, in classes."""


class Walking:
    """What the calls of one walk leave for the next one; used again by later walks."""

    def __init__(self, room: int, levels: int, width: int) -> None:
        self.width = width
        self.stack: Grid = np.zeros((levels, width), np.int32)
        self.place: Ints = np.zeros(NEXT_EXIT + 1, np.int32)
        self._dense: DenseArrays = NO_DENSE
        self._exits: Ints = np.empty(room, np.int32)
        self._missing: Grid = np.empty((ROOM_LEFT, width + 2), np.int32)
        self._spare: Grid = np.empty((ROOM_LEFT, width + 2), np.int32)
        self._portals: Grid = np.empty((ROOM_PORTALS, 4), np.int32)
        self._needs: Grid = np.empty((ROOM_NEEDS, 3), np.int32)

    def found(self, row: Words) -> Found:
        """Where the kernels put what they find."""
        return row, self._exits, self._missing, self._portals, self._needs

    def dense(self, num_states: int) -> DenseArrays:
        """The dense rows of this walk, for so many states."""
        rows, state_of, number_of = self._dense
        if not len(rows):
            rows, state_of = np.empty((ROOM_DENSE, BYTES), np.int32), np.empty(ROOM_DENSE, np.int32)
        if self.place[NUM_DENSE] == 0 or len(number_of) < num_states:
            larger: Ints = np.full(2 * num_states, -1, np.int32)
            if self.place[NUM_DENSE]:
                larger[: len(number_of)] = number_of
            self._dense = rows, state_of, larger
        return self._dense

    def exits_in_order(self) -> Ints:
        """The exits of the last walk."""
        found = self._exits[: self.place[EXITS]].copy()
        found.sort()
        return found

    def run(
        self,
        automaton: Walkable,
        stretches: Grid,
        step: Callable[[Grid], bool],
        past: Callable[[Grid], list[Grid]],
    ) -> None:
        """Walk the stretches, and then those that were left out, until none is."""
        place = self.place
        place.fill(0)
        count = len(stretches)
        while count:
            place[NODE], place[COUNT] = BEFORE, count
            more: list[Grid] = []
            is_over = False
            while not is_over:
                is_over = step(stretches)
                count, num_portals, num_needs = place[LEFT : NEEDS + 1].tolist()
                if num_needs:
                    place[NEEDS] = 0
                    automaton.supply(self._needs[:num_needs].tolist())
                if num_portals:
                    place[PORTALS] = 0
                    more += past(self._portals[:num_portals].copy())
                if count == len(self._missing):
                    self._missing = np.concatenate((self._missing, np.empty_like(self._missing)))
            stretches, self._missing, self._spare = self._missing, self._spare, self._missing
            if more:
                stretches = np.concatenate((stretches[:count], *more))
                count = len(stretches)
