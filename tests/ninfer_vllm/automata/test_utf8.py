"""Automata over bytes read exactly the encodings of what the automata over characters read."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.algebra import ANY_TEXT
from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.expressions import fullmatch_dfa
from ninfer_vllm.automata.utf8 import encoded
from tests.support.expressions import expression, text

BORDERS = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x10FFFF]

codes = st.one_of(st.sampled_from(BORDERS), st.integers(0, 0x10FFFF))
ranges = st.lists(st.tuples(codes, codes).map(lambda ends: (min(ends), max(ends))), min_size=1, max_size=4)


def _accepts(automaton: Dfa, data: bytes) -> bool:
    return automaton.accepts("".join(map(chr, data)))


def _single(chars: CharSet) -> Dfa:
    return Dfa((((chars, 1),), ()), frozenset((1,)))


@pytest.mark.contract("GDE-1", "TOK-1")
@settings(max_examples=200, deadline=None)
@given(ranges)
def test_characters_of_a_set_are_read_at_its_borders(drawn: list[tuple[int, int]]) -> None:
    chars = CharSet.from_ranges(drawn)
    over_bytes = encoded(_single(chars))
    beside = {code + step for low, high in drawn for code in (low, high) for step in (-1, 0, 1)}
    for code in {*beside, *BORDERS}:
        if 0 <= code <= 0x10FFFF:
            data = chr(code).encode("utf-8", "surrogatepass")
            assert _accepts(over_bytes, data) == (code in chars)


@pytest.mark.contract("GDE-1")
def test_bytes_that_are_no_text_are_never_read() -> None:
    every = encoded(ANY_TEXT)
    rng = random.Random(5)
    num_texts = 0
    for _ in range(20_000):
        data = bytes(rng.choice((0x41, 0x80, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xA0, 0xF0, 0xF4, 0x90)) for _ in range(4))
        try:
            data.decode()
        except UnicodeDecodeError:
            assert not _accepts(every, data)
        else:
            num_texts += 1
            assert _accepts(every, data)
    assert num_texts > 100


@pytest.mark.contract("GDE-1")
def test_random_expressions_keep_their_texts() -> None:
    rng = random.Random(6)
    for _ in range(200):
        automaton = fullmatch_dfa(expression(rng).ours)
        over_bytes = encoded(automaton)
        assert all(high <= 0xFF for edges in over_bytes.edges for codes, _ in edges for _, high in codes.ranges)
        for one in (text(rng) for _ in range(20)):
            assert _accepts(over_bytes, one.encode()) == automaton.accepts(one)


@pytest.mark.contract("GDE-1")
def test_equal_tails_are_one_state() -> None:
    assert len(encoded(_single(ANY)).edges) == 9
