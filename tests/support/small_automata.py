"""Small automata over a few letters, and all short texts of those."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa

LETTERS = "abé"
TEXTS = ["".join(letters) for size in range(5) for letters in product(LETTERS, repeat=size)]
BLOCKS = [CharSet.from_chars(letter) for letter in LETTERS] + [~CharSet.from_chars(LETTERS)]


@st.composite
def automata(draw: st.DrawFn) -> Dfa:
    num_states = draw(st.integers(1, 4))
    targets = st.one_of(st.none(), st.integers(0, num_states - 1))
    edges = []
    for _ in range(num_states):
        steps = [(block, draw(targets)) for block in BLOCKS]
        edges.append(tuple((block, target) for block, target in steps if target is not None))
    return Dfa(tuple(edges), frozenset(draw(st.sets(st.integers(0, num_states - 1)))))
