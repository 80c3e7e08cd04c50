"""The transition tables of an automaton as growing arrays that compiled code reads."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ninfer_vllm.engines.native.arrays import DEAD, UNKNOWN, TableArrays

Number = TypeVar("Number", np.int32, np.uint16, np.uint8)

BYTES = 256
FIRST_CAPACITY = 64
NO_TEXT = -1
"""Of a state that reads more than one fixed text."""

ROW_BYTES = 17
"""Bytes of a state in the arrays, without its transitions."""


class Tables:
    """States -> rows of transitions over byte classes, or a fixed text and the one state behind it.

    Shapes: `row_of`, `map_of`, `flags`, `text_of` and `length_of` one entry a state; `maps` 256 classes a map; `pool`
    one transition a class of a state; `texts` the bytes of fixed texts. The transition of state s over byte b is
    `pool[row_of[s] + maps[map_of[s] + b]]`. Where `text_of[s]` is not negative, s reads `length_of[s]` bytes of `texts`
    from there on, and `pool[row_of[s]]` is the state behind them.
    """

    def __init__(self) -> None:
        self.row_of: npt.NDArray[np.int32] = np.full(FIRST_CAPACITY, UNKNOWN, np.int32)
        self.map_of: npt.NDArray[np.int32] = np.zeros(FIRST_CAPACITY, np.int32)
        self.flags: npt.NDArray[np.uint8] = np.zeros(FIRST_CAPACITY, np.uint8)
        self.maps: npt.NDArray[np.uint16] = np.zeros(BYTES * 16, np.uint16)
        self.pool: npt.NDArray[np.int32] = np.full(FIRST_CAPACITY * 4, DEAD, np.int32)
        self.text_of: npt.NDArray[np.int32] = np.full(FIRST_CAPACITY, NO_TEXT, np.int32)
        self.length_of: npt.NDArray[np.int32] = np.zeros(FIRST_CAPACITY, np.int32)
        self.texts: npt.NDArray[np.uint8] = np.zeros(BYTES * 4, np.uint8)
        self._num_text_bytes = 0
        self._texts: dict[bytes, int] = {}
        self._maps: dict[bytes, int] = {}
        self._segments: dict[int, tuple[tuple[int, int, int], ...]] = {}
        self._used = 0
        self.num_states = 0

    @property
    def arrays(self) -> TableArrays:
        """All of it, in the order the kernels take it."""
        return self.row_of, self.map_of, self.maps, self.pool, self.flags, self.text_of, self.length_of, self.texts

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return ROW_BYTES * self.num_states + 4 * self._used + 2 * BYTES * len(self._maps) + self._num_text_bytes

    def add_state(self, flags: int) -> int:
        """A new state without transitions."""
        state = self.num_states
        if state == len(self.row_of):
            self.row_of = _grown(self.row_of, UNKNOWN)
            self.map_of = _grown(self.map_of, 0)
            self.flags = _grown(self.flags, 0)
            self.text_of = _grown(self.text_of, NO_TEXT)
            self.length_of = _grown(self.length_of, 0)
        self.flags[state] = flags
        self.num_states += 1
        return state

    def add_row(self, state: int, class_map: int, targets: list[int]) -> None:
        """Give a state its byte classes with their transitions, those of class 1 first; class 0 is dead."""
        used, num_classes = self._used, len(targets)
        while used + num_classes + 1 > len(self.pool):
            self.pool = _grown(self.pool, DEAD)
        self.pool[used + 1 : used + 1 + num_classes] = targets
        self.map_of[state] = class_map
        self.row_of[state] = used
        self._used = used + num_classes + 1

    def add_text(self, state: int, data: bytes, offset: int) -> None:
        """Give a state the rest of a fixed text; what is behind it is unknown."""
        start = self._texts.get(data)
        if start is None:
            start = self._texts[data] = self._num_text_bytes
            self._num_text_bytes += len(data)
            while self._num_text_bytes > len(self.texts):
                self.texts = _grown(self.texts, 0)
            self.texts[start : self._num_text_bytes] = np.frombuffer(data, np.uint8)
        self.text_of[state] = start + offset
        self.length_of[state] = len(data) - offset
        if self._used == len(self.pool):
            self.pool = _grown(self.pool, DEAD)
        self.pool[self._used] = UNKNOWN
        self.row_of[state] = self._used
        self._used += 1

    def reads_text(self, state: int) -> bool:
        """Whether a state reads one fixed text and nothing else."""
        return bool(self.text_of[state] != NO_TEXT)

    def add_map(self, segments: tuple[tuple[int, int, int], ...]) -> int:
        """The class map of ranges of bytes with their class."""
        classes = np.zeros(BYTES, np.uint16)
        for low, high, byte_class in segments:
            classes[low : high + 1] = byte_class
        key = classes.tobytes()
        start = self._maps.get(key)
        if start is None:
            start = self._maps[key] = BYTES * len(self._maps)
            if start + BYTES > len(self.maps):
                self.maps = _grown(self.maps, 0)
            self.maps[start : start + BYTES] = classes
            self._segments[start] = segments
        return start

    def segments(self, state: int) -> tuple[tuple[int, int, int], ...]:
        """The live bytes of a state with a row, as ranges with their class."""
        return self._segments[int(self.map_of[state])]

    def class_of(self, state: int, byte: int) -> int:
        """The class of a byte in a state with a row."""
        return int(self.maps[self.map_of[state] + byte])

    def get(self, state: int, byte_class: int) -> int:
        """The transition of a class."""
        return int(self.pool[self.row_of[state] + byte_class])

    def set(self, state: int, byte_class: int, target: int) -> None:
        """Set the transition of a class."""
        self.pool[self.row_of[state] + byte_class] = target


def _grown(array: npt.NDArray[Number], fill: int) -> npt.NDArray[Number]:
    """An array of twice the length; compiled code may still read the old one."""
    larger: npt.NDArray[Number] = np.full(2 * len(array), fill, array.dtype)
    larger[: len(array)] = array
    return larger
