"""Packed masks by state: each computed once and shared, equal ones stored once (GDE-10)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninfer_vllm.masks.bits import WORD_BITS, MaskRow, words_for


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A read-only mask row, and whether it has a bit set."""

    row: MaskRow
    has_legal: bool


class Rows:
    """The masks of one guide under a byte budget; thread-safe. When the budget is full all are forgotten."""

    def __init__(self, num_tokens: int, budget: int) -> None:
        self._num_words = words_for(num_tokens)
        self._budget = budget
        self._lock = threading.Lock()
        self._of_state: dict[int, Packed] = {}
        self._distinct: dict[bytes, Packed] = {}
        self._used = 0

    def of(self, state: int, tokens: Callable[[], npt.NDArray[np.int32]]) -> Packed:
        """The row of a state; `tokens` names its legal tokens where the row is new."""
        found = self._of_state.get(state)
        return self._new(state, tokens()) if found is None else found

    def _new(self, state: int, tokens: npt.NDArray[np.int32]) -> Packed:
        legal = np.zeros(self._num_words * WORD_BITS, np.uint8)
        legal[tokens] = 1
        packed = np.packbits(legal, bitorder="little").tobytes()
        with self._lock:
            if packed not in self._distinct:
                self._make_room(len(packed))
                self._distinct[packed] = Packed(np.frombuffer(packed, np.int32), len(tokens) > 0)
            found = self._of_state[state] = self._distinct[packed]
            return found

    def _make_room(self, size: int) -> None:
        if self._used + size > self._budget:
            self._of_state.clear()
            self._distinct.clear()
            self._used = 0
        self._used += size
