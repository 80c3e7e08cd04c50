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

TrieArrays = tuple[Nodes, Ints, Ints, Ints]
"""The arrays `nodes`, `first`, `tokens` and `marks` of a `Trie`."""

Octets = npt.NDArray[np.uint8]
Shorts = npt.NDArray[np.uint16]

TableArrays = tuple[Grid, Shorts, Ints, Octets]
"""The arrays `states`, `maps`, `pool` and `texts` of `Tables`."""

ROW, MAP, TEXT, LENGTH, FLAGS = range(5)
"""Columns of `states`."""

Found = tuple[Words, Ints, Grid, Grid, Grid]
"""A walk's row; room for exits, or none where they are not wanted; stretches left out; portals; transitions needed."""

DenseArrays = tuple[Grid, Ints, Ints]
"""256 numbers of dense rows a row, UNKNOWN where it takes a look; each row's state; and each state's row, or -1."""

AT, NODE, COUNT, EXITS, LEFT, PORTALS, NEEDS, NUM_DENSE, NEXT_EXIT = range(9)
"""Numbers of a walk's place: next stretch, next node (-1 at a new stretch), stretches; how many exits, stretches left
out, portals, needed transitions and dense rows there are; and, in a walk beside another state, that one's next exit."""

BEFORE = -2
"""The next node of a walk whose stretches are new."""

UNKNOWN = -2
"""A transition or a row that was never computed."""

DEAD = -1
"""No state."""

ACCEPTS = 1
"""Flag of a state: the automaton may end here."""

PORTAL = 2
"""Flag of a state: automata of their own know a part of it."""

NAMES = 4
"""Flag of a state: it reads tokens by their number, too."""
