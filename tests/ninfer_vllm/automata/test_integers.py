"""An interval of integers has exactly their plain spellings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.integers import integer_interval

edges = st.one_of(
    st.integers(-120, 120), st.integers(-(10**19), 10**19), st.sampled_from([-(2**63), 2**63 - 1, 999, 1000, -1000])
)


@pytest.mark.contract("JSO-5", "JST-6")
@settings(max_examples=300, deadline=None)
@given(edges, edges, st.lists(edges, max_size=20))
def test_integer_interval_accepts_what_lies_inside(low: int, high: int, others: list[int]) -> None:
    automaton = integer_interval(low, high)
    near = [edge + step for edge in (low, high) for step in range(-2, 3)]
    for number in (*near, *others, 0):
        assert automaton.accepts(str(number)) == (low <= number <= high)


@pytest.mark.contract("JSO-5")
def test_integers_have_one_spelling() -> None:
    automaton = integer_interval(-20, 20)
    assert [
        text for text in ("", "-", "-0", "00", "01", "+1", "1.0", "1e0", "-01", " 1") if automaton.accepts(text)
    ] == []


def test_automaton_of_all_64_bit_integers_is_small() -> None:
    assert len(integer_interval(-(2**63), 2**63 - 1).edges) < 60
