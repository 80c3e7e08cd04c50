"""The arrays that compiled code reads, and the marks in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]

Grid = npt.NDArray[np.int32]
"""Of two dimensions."""

Nodes = npt.NDArray[np.int64]

DEPTH = 0xFFFFFF
"""The bits of a depth in a node, once its byte is shifted out."""

TrieArrays = tuple[Nodes, Ints, Ints]
"""The arrays `nodes`, `first` and `tokens` of a `Trie`."""

Octets = npt.NDArray[np.uint8]

TableArrays = tuple[Ints, Ints, npt.NDArray[np.uint16], Ints, Octets, Ints, Ints, Octets]
"""The arrays `row_of`, `map_of`, `maps`, `pool`, `flags`, `text_of`, `length_of` and `texts` of `Tables`."""

UNKNOWN = -2
"""A transition or a row that was never computed."""

DEAD = -1
"""No state."""

ACCEPTS = 1
"""Flag of a state: the automaton may end here."""

PORTAL = 2
"""Flag of a state: automata of their own know a part of it."""
