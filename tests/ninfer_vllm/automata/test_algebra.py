"""Set operations on automata agree with the same operations on sets of texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.algebra import (
    ANY_TEXT,
    NO_TEXT,
    complement,
    counted,
    difference,
    explore,
    finite,
    intersection,
    minimise,
    union,
)
from ninfer_vllm.automata.charset import ANY
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.limits import REGULAR_STATES
from tests.support.small_automata import TEXTS, automata


def language(automaton: Dfa) -> set[str]:
    return {text for text in TEXTS if automaton.accepts(text)}


@settings(max_examples=150, deadline=None)
@given(automata(), automata())
def test_operations_are_those_of_sets(left: Dfa, right: Dfa) -> None:
    assert language(intersection(left, right)) == language(left) & language(right)
    assert language(union(left, right)) == language(left) | language(right)
    assert language(difference(left, right)) == language(left) - language(right)
    assert language(complement(left)) == set(TEXTS) - language(left)


@settings(max_examples=150, deadline=None)
@given(automata())
def test_minimise_keeps_the_language_and_is_idempotent(automaton: Dfa) -> None:
    smallest = minimise(automaton)
    assert language(smallest) == language(automaton)
    assert len(smallest.edges) <= max(len(automaton.trimmed().edges), 1)
    assert minimise(smallest) == smallest


@settings(max_examples=100, deadline=None)
@given(automata(), automata())
def test_equal_languages_have_one_smallest_automaton(left: Dfa, right: Dfa) -> None:
    assert minimise(complement(complement(left))) == minimise(left)
    assert intersection(left, right) == intersection(right, left)


@given(st.lists(st.text("ab\x00漢😀", max_size=4), max_size=6))
def test_finite_accepts_exactly_its_texts(texts: list[str]) -> None:
    automaton = finite(texts)
    near = [text[:-1] for text in texts] + [text + "a" for text in texts]
    assert [text for text in (*texts, *near) if automaton.accepts(text)] == [
        text for text in (*texts, *near) if text in texts
    ]


@pytest.mark.parametrize(("minimum", "maximum"), [(0, 0), (0, None), (2, None), (1, 3), (3, 3)])
def test_counted_counts_characters(minimum: int, maximum: int | None) -> None:
    accepted = [size for size in range(6) if counted(minimum, maximum).accepts("😀" * size)]
    assert accepted == [size for size in range(6) if minimum <= size <= (5 if maximum is None else maximum)]


def test_every_text_and_no_text_are_complements() -> None:
    assert complement(ANY_TEXT).is_empty
    assert language(complement(NO_TEXT)) == set(TEXTS)


@pytest.mark.contract("JSC-5")
def test_states_are_limited() -> None:
    with pytest.raises(LimitExceeded):
        explore(0, lambda state: [(ANY, state + 1)], lambda _: True)
    with pytest.raises(LimitExceeded):
        counted(0, REGULAR_STATES)
    with pytest.raises(LimitExceeded):
        finite(["a" * REGULAR_STATES])
