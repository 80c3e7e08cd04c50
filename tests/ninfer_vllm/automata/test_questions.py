"""Questions about languages, answered by trying every short text."""

from __future__ import annotations

from itertools import islice, product

import pytest
from hypothesis import given, settings

from ninfer_vllm.automata.algebra import ANY_TEXT, NO_TEXT, finite, minimise
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.expressions import fullmatch_dfa
from ninfer_vllm.automata.questions import (
    distances,
    equivalent,
    includes,
    is_finite,
    num_texts,
    shortest_text,
    texts,
)
from tests.support.grammars import ALPHABET, automata

SHORT = sorted(
    ("".join(chars) for size in range(4) for chars in product(ALPHABET, repeat=size)),
    key=lambda one: (len(one), one),
)
pytestmark = pytest.mark.contract("GDE-11")


@settings(max_examples=100, deadline=None)
@given(automata())
def test_texts_come_in_order_and_none_is_left_out(automaton: Dfa) -> None:
    expected = [one for one in SHORT if automaton.accepts(one)]
    found = [one for one in islice(texts(automaton), len(expected)) if len(one) < 4]
    assert found == expected


@settings(max_examples=100, deadline=None)
@given(automata())
def test_finite_languages_are_counted(automaton: Dfa) -> None:
    count = num_texts(automaton)
    assert is_finite(automaton) == (count is not None)
    # A language of four states is finite where no text is longer than its number of states.
    expected = [one for one in SHORT if automaton.accepts(one)]
    assert is_finite(automaton) == all(len(one) < len(automaton.edges) for one in islice(texts(automaton), 2_000))
    if count is not None:
        assert count == len(expected) == len(list(texts(automaton)))


@settings(max_examples=100, deadline=None)
@given(automata())
def test_distances_lead_to_the_first_of_the_shortest_texts(automaton: Dfa) -> None:
    first = next(texts(automaton), None)
    assert shortest_text(automaton) == first
    left = distances(automaton)
    assert left[0] == (None if first is None else len(first))
    for state, outgoing in enumerate(automaton.edges):
        below = [left[target] for _, target in outgoing]
        known = [distance for distance in below if distance is not None]
        nearest = min(known) + 1 if known else None
        assert left[state] == (0 if state in automaton.accepting else nearest)


@settings(max_examples=100, deadline=None)
@given(automata(), automata())
def test_inclusion_and_equality_are_those_of_sets(left: Dfa, right: Dfa) -> None:
    in_left, in_right = ({one for one in SHORT if automaton.accepts(one)} for automaton in (left, right))
    if includes(left, right):
        assert in_right <= in_left
    if in_left != in_right:
        assert not equivalent(left, right)
    assert equivalent(left, minimise(left))


def test_every_text_and_no_text() -> None:
    assert num_texts(NO_TEXT) == 0
    assert shortest_text(NO_TEXT) is None
    assert list(texts(NO_TEXT)) == []
    assert num_texts(ANY_TEXT) is None
    assert shortest_text(ANY_TEXT) == ""
    assert num_texts(fullmatch_dfa("[^]{3}")) == 1_112_064**3
    assert list(texts(finite(["b", "", "ab"]))) == ["", "b", "ab"]
