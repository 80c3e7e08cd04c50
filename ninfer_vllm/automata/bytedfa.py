"""Deterministic automata over bytes as arrays: a 256-wide transition table with distances to acceptance (GDE-2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.questions import distances

BYTE_VALUES = 256
DEAD = -1
"""No state: nothing that follows can be accepted."""


@dataclass(frozen=True, slots=True, eq=False)
class ByteDfa:
    """A pruned automaton over bytes: every state can still accept, so a step to `DEAD` ends all hope.

    Shapes: with S states, state 0 the start: `table` [S, 256], `accepting` [S], `distance` [S]. All are read-only.
    Units:  `distance` is the least number of bytes to an accepting state.
    """

    table: npt.NDArray[np.int32]
    accepting: npt.NDArray[np.bool_]
    distance: npt.NDArray[np.int32]

    @classmethod
    def of(cls, automaton: Dfa) -> ByteDfa:
        """The arrays of an automaton whose codes are bytes and whose language is not empty."""
        pruned = automaton.trimmed()
        assert pruned.accepting, "an automaton without a text has no states that can accept"
        num_states = len(pruned.edges)
        table = np.full((num_states, BYTE_VALUES), DEAD, np.int32)
        for state, outgoing in enumerate(pruned.edges):
            for codes, target in outgoing:
                for low, high in codes.ranges:
                    table[state, low : high + 1] = target
        accepting = np.zeros(num_states, np.bool_)
        accepting[list(pruned.accepting)] = True
        distance = np.array(distances(pruned), np.int32)
        for array in (table, accepting, distance):
            array.flags.writeable = False
        return cls(table, accepting, distance)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the arrays."""
        return self.table.nbytes + self.accepting.nbytes + self.distance.nbytes

    def run(self, data: bytes, state: int = 0) -> int:
        """The state after some bytes, `DEAD` where one of them is rejected."""
        for byte in data:
            if state == DEAD:
                break
            state = int(self.table[state, byte])
        return state

    def accepts(self, data: bytes) -> bool:
        """Whether the whole of the bytes is in the language."""
        state = self.run(data)
        return state != DEAD and bool(self.accepting[state])
