"""The transition tables of an automaton as growing arrays that compiled code reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ninfer_vllm.engines.native.arrays import (
    DEAD,
    FLAGS,
    LENGTH,
    MAP,
    ROW,
    TEXT,
    UNKNOWN,
    Grid,
    Ints,
    Octets,
    Shorts,
    TableArrays,
)
from ninfer_vllm.engines.native.kinds import Segment

Number = TypeVar("Number", np.int32, np.uint16, np.uint8)

Readers = tuple[tuple[tuple[int, int], ...], ...]
BYTES = 256
FIRST_CAPACITY = 64
NO_TEXT = -1
"""Of a state that reads more than one fixed text."""

COLUMNS = 8
"""Numbers of a state, of which some are not used: a state then lies in one line of the processor's cache."""

ROW_BYTES = 4 * COLUMNS
"""Bytes of a state in the arrays, without its transitions."""


class Tables:
    """States -> rows of transitions over byte classes, or a fixed text and the one state behind it.

    Shapes: `states` one row a state: where its transitions begin in `pool` (UNKNOWN before they are computed), its
    class map, where its fixed text begins in `texts` (NO_TEXT without one), that text's length, and its flags; `maps`
    256 classes a map; `pool` one transition a class of a state; `texts` the bytes of fixed texts. The transition of
    state s over byte b is `pool[states[s, ROW] + maps[states[s, MAP] + b]]`; for a fixed text, `pool[states[s, ROW]]`
    is the state behind it.
    """

    arrays: TableArrays
    """All of it, in the order the kernels take it."""

    def __init__(self) -> None:
        self._states: Grid = _rows(FIRST_CAPACITY)
        self._maps: Shorts = np.zeros(BYTES * 16, np.uint16)
        self._pool: Ints = np.full(FIRST_CAPACITY * 4, DEAD, np.int32)
        self._texts: Octets = np.zeros(BYTES * 4, np.uint8)
        self._num_text_bytes = 0
        self._text_starts: dict[bytes, int] = {}
        self._map_starts: dict[bytes, int] = {}
        self._num_live: dict[int, int] = {}
        self._segments: dict[int, tuple[tuple[int, int, int], ...]] = {}
        self._num_transitions = 0
        self._num_states = 0
        self._collect()

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return (
            ROW_BYTES * self._num_states
            + 4 * self._num_transitions
            + 2 * BYTES * len(self._map_starts)
            + self._num_text_bytes
        )

    def add_state(self, flags: int) -> int:
        """A new state without transitions."""
        state = self._num_states
        if state == len(self._states):
            larger = _rows(2 * state)
            larger[:state] = self._states
            self._states = larger
            self._collect()
        self._state_view[state, FLAGS] = flags
        self._num_states += 1
        return state

    def add_row(self, state: int, class_map: int, targets: Sequence[int]) -> None:
        """Give a state its byte classes with their transitions, those of class 1 first; class 0 is dead."""
        self._states[state, : MAP + 1] = self._pooled((DEAD, *targets)), class_map

    def _pooled(self, transitions: tuple[int, ...]) -> int:
        """Put transitions into the pool; where they begin."""
        start = self._num_transitions
        end = self._num_transitions = start + len(transitions)
        while end > len(self._pool):
            self._pool = _grown(self._pool, DEAD)
            self._collect()
        self._pool[start:end] = transitions
        return start

    def add_text(self, state: int, data: bytes, offset: int) -> None:
        """Give a state the rest of a fixed text; what is behind it is unknown."""
        start = self._text_starts.get(data)
        if start is None:
            start = self._text_starts[data] = self._num_text_bytes
            self._num_text_bytes += len(data)
            while self._num_text_bytes > len(self._texts):
                self._texts = _grown(self._texts, 0)
                self._collect()
            self._texts[start : self._num_text_bytes] = np.frombuffer(data, np.uint8)
        row = self._pooled((UNKNOWN,))
        self._states[state, : LENGTH + 1] = row, 0, start + offset, len(data) - offset

    def reads_text(self, state: int) -> bool:
        """Whether a state reads one fixed text and nothing else."""
        return bool(self._state_view[state, TEXT] != NO_TEXT)

    def is_known(self, state: int) -> bool:
        """Whether a state has its byte classes, or reads a fixed text."""
        return bool(self._state_view[state, ROW] != UNKNOWN)

    def flags(self, state: int) -> int:
        """The flags of a state."""
        return int(self._state_view[state, FLAGS])

    def map_of(self, state: int) -> int:
        """The class map of a state with a row."""
        return int(self._state_view[state, MAP])

    def widest_class(self, state: int) -> int:
        """The class with the most bytes in a state with a row; 0 where nothing is read."""
        sizes = np.bincount(self._map(state))
        sizes[0] = 0
        return int(np.argmax(sizes))

    def num_live(self, state: int) -> int:
        """How many bytes a state with a row reads."""
        start = self.map_of(state)
        found = self._num_live.get(start)
        if found is None:
            found = self._num_live[start] = int(np.count_nonzero(self._map(state)))
        return found

    def _map(self, state: int) -> Shorts:
        start = self.map_of(state)
        return self._maps[start : start + BYTES]

    def add_map(self, classes: Shorts) -> int:
        """The number of a class map: one class a byte, 0 for dead ones."""
        key = classes.tobytes()
        start = self._map_starts.get(key)
        if start is None:
            start = self._map_starts[key] = BYTES * len(self._map_starts)
            if start + BYTES > len(self._maps):
                self._maps = _grown(self._maps, 0)
                self._collect()
            self._maps[start : start + BYTES] = classes
        return start

    def segments(self, state: int) -> tuple[tuple[int, int, int], ...]:
        """The live bytes of a state with a row, as ranges with their class."""
        start = self.map_of(state)
        found = self._segments.get(start)
        if found is None:
            found = self._segments[start] = _segments_of(self._map(state))
        return found

    def class_of(self, state: int, byte: int) -> int:
        """The class of a byte in a state with a row."""
        return int(self._map_view[self._state_view[state, MAP] + byte])

    def get(self, state: int, byte_class: int) -> int:
        """The transition of a class."""
        return int(self._pool_view[self._state_view[state, ROW] + byte_class])

    def set(self, state: int, byte_class: int, target: int) -> None:
        """Set the transition of a class."""
        self._pool_view[self._state_view[state, ROW] + byte_class] = target

    def _collect(self) -> None:
        """Take the arrays as they are now, and views of them: Python reads single numbers faster by those."""
        self.arrays = self._states, self._maps, self._pool, self._texts
        self._state_view, self._map_view, self._pool_view = self._states.data, self._maps.data, self._pool.data


def classes_of(segments: Iterable[tuple[int, int, int]]) -> Shorts:
    """The class map of ranges of bytes with their class."""
    classes: Shorts = np.zeros(BYTES, np.uint16)
    for low, high, byte_class in segments:
        classes[low : high + 1] = byte_class
    return classes


def joined_classes(per_config: tuple[tuple[Segment, ...], ...]) -> tuple[tuple[Segment, ...], Readers]:
    """Classes of bytes that the same configurations read in the same class, numbered from 1, and who reads each."""
    if len(per_config) == 1:
        num = max((byte_class for _, _, byte_class in per_config[0]), default=0)
        return per_config[0], tuple(((0, byte_class),) for byte_class in range(1, num + 1))
    events: list[tuple[int, int, int, int]] = []
    for index, segments in enumerate(per_config):
        for low, high, byte_class in segments:
            events.append((low, 1, index, byte_class))
            events.append((high + 1, 0, index, byte_class))
    events.sort()
    active: dict[int, int] = {}
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    found: list[Segment] = []
    previous = 0
    for at, opens, index, byte_class in events:
        if at > previous and active:
            found.append((previous, at - 1, numbers.setdefault(tuple(sorted(active.items())), len(numbers) + 1)))
        previous = at
        if opens:
            active[index] = byte_class
        else:
            del active[index]
    return tuple(found), tuple(numbers)


def _segments_of(classes: Shorts) -> tuple[tuple[int, int, int], ...]:
    firsts = [0, *(np.flatnonzero(np.diff(classes)) + 1).tolist()]
    behind = [*firsts[1:], BYTES]
    found = zip(firsts, behind, classes[firsts].tolist(), strict=True)
    return tuple((first, end - 1, byte_class) for first, end, byte_class in found if byte_class)


def _rows(count: int) -> Grid:
    """Rows of states without anything."""
    found: Grid = np.zeros((count, COLUMNS), np.int32)
    found[:, ROW] = UNKNOWN
    found[:, TEXT] = NO_TEXT
    return found


def _grown(array: npt.NDArray[Number], fill: int) -> npt.NDArray[Number]:
    """An array of twice the length; compiled code may still read the old one."""
    larger: npt.NDArray[Number] = np.full(2 * len(array), fill, array.dtype)
    larger[: len(array)] = array
    return larger
