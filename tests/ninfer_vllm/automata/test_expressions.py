"""Automata of expressions against two engines that are not ours, and the laws of sets."""

from __future__ import annotations

import random
from functools import reduce

import interegular
import pytest
import regex as authority
from hypothesis import given, settings
from hypothesis import strategies as st
from interegular import FSM

from ninfer_vllm.automata.algebra import ANY_TEXT, NO_TEXT, complement, difference, intersection, union
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.expressions import fullmatch_dfa, fullmatch_nfa, pattern_dfa
from ninfer_vllm.automata.lazy import LazyDfa
from ninfer_vllm.automata.questions import equivalent, includes, is_finite, num_texts, shortest_text, texts
from ninfer_vllm.errors import InvalidRegex, LimitExceeded
from ninfer_vllm.languages.json_schema.strings import spelled
from ninfer_vllm.limits import REGULAR_STATES
from tests.support.effort import cpu_within
from tests.support.expressions import anchored, expression, text

LETTERS = (*((char, char) for char in "aabbc"), ("[ab]", "[ab]"), ("", ""))
"""Atoms whose languages are finite over three letters, so that a foreign automaton can count and compare them."""

seeds = st.integers(0, 2**32)


def _random_automaton(seed: int) -> Dfa:
    return fullmatch_dfa(expression(random.Random(seed)).ours)


@pytest.mark.contract("GDE-1", "GDE-8", "RGX-1", "RGX-3", "RGX-7")
def test_full_match_is_that_of_another_engine() -> None:
    rng = random.Random(1)
    compared = matched = 0
    for _ in range(500):
        pair = expression(rng)
        automaton, lazy = fullmatch_dfa(pair.ours), LazyDfa(fullmatch_nfa(pair.ours))
        theirs = authority.compile(pair.theirs, authority.V0)
        for one in [*(text(rng) for _ in range(24)), *_near(automaton, rng)]:
            expected = theirs.fullmatch(one) is not None
            assert automaton.accepts(one) == expected, (pair, one)
            assert lazy.accepts(one) == expected, (pair, one)
            compared += 1
            matched += expected
    assert compared > 12_000
    assert matched > 2_000


@pytest.mark.contract("JST-5", "RGX-5", "RGX-7", "GDE-8", "GDE-11")
def test_search_is_that_of_another_engine() -> None:
    rng = random.Random(2)
    compared = matched = 0
    for _ in range(400):
        pair = anchored(rng)
        automaton = pattern_dfa(pair.ours)
        theirs = authority.compile(pair.theirs, authority.V0)
        for one in (text(rng) for _ in range(24)):
            expected = theirs.search(one) is not None
            assert automaton.accepts(one) == expected, (pair, one)
            compared += 1
            matched += expected
    assert compared == 9_600
    assert 2_000 < matched < 9_000


def _near(automaton: Dfa, rng: random.Random) -> list[str]:
    """Some texts of the language, and each with one character changed."""
    found = []
    for _ in range(3):
        state, chars = 0, ""
        while automaton.edges[state] and len(chars) < 8 and not (state in automaton.accepting and rng.random() < 0.3):
            codes, state = rng.choice(automaton.edges[state])
            chars += chr(rng.choice([*codes.ranges[0], *codes.ranges[-1]]))
        at = rng.randrange(len(chars) + 1)
        found += [chars, chars[:at] + text(rng, 1) + chars[at + 1 :]]
    return found


@pytest.mark.contract("GDE-8", "GDE-11")
def test_operations_agree_with_another_automaton_library() -> None:
    rng = random.Random(3)
    kinds = set()
    for _ in range(150):
        pairs = [expression(rng, 5, atoms=LETTERS) for _ in range(2)]
        left, right = (fullmatch_dfa(pair.ours) for pair in pairs)
        their_left, their_right = (_foreign(pair.theirs) for pair in pairs)
        for ours, theirs in (
            (intersection(left, right), their_left & their_right),
            (union(left, right), their_left | their_right),
            (difference(left, right), their_left - their_right),
        ):
            assert ours.is_empty == theirs.empty()
            assert includes(ours, left) == (their_left - theirs).empty()
            if not theirs.empty() and is_finite(ours):
                assert num_texts(ours) == len(theirs)
            kinds.add((ours.is_empty, is_finite(ours)))
        assert equivalent(left, right) == (their_left ^ their_right).empty()
    assert kinds == {(True, True), (False, True), (False, False)}


def _foreign(expression_text: str) -> FSM:
    return interegular.parse_pattern(expression_text).to_fsm()


@pytest.mark.contract("GDE-11")
@settings(max_examples=80, deadline=None)
@given(seeds, seeds, seeds)
def test_operations_obey_the_laws_of_sets(first: int, second: int, third: int) -> None:
    a, b, c = map(_random_automaton, (first, second, third))
    assert equivalent(complement(complement(a)), a)
    assert intersection(a, complement(a)).is_empty
    assert equivalent(union(a, complement(a)), ANY_TEXT)
    assert equivalent(complement(union(a, b)), intersection(complement(a), complement(b)))
    assert equivalent(difference(a, b), intersection(a, complement(b)))
    assert equivalent(intersection(a, union(b, c)), union(intersection(a, b), intersection(a, c)))
    assert intersection(intersection(a, b), c) == intersection(a, intersection(b, c))
    assert includes(a, intersection(a, b))
    assert includes(union(a, b), b)
    assert equivalent(a, b) == (includes(a, b) and includes(b, a))


@pytest.mark.contract("JST-5", "RGX-7")
@pytest.mark.parametrize(
    ("source", "found", "missed"),
    [
        ("a", ["a", "xax", "\na"], ["", "b"]),
        ("^a", ["a", "ax"], ["xa", "\na"]),
        ("a$", ["a", "xa"], ["ax", "a\n"]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("^a$|^b$", ["a", "b"], ["ab", "xa", ""]),
        ("^(?:a|b)$", ["a", "b"], ["ab", ""]),
        ("^$", [""], ["a"]),
        ("", ["", "anything"], []),
        ("^é😀", ["é😀!"], ["é"]),
    ],
)
def test_pattern_searches_with_anchors_of_branches(source: str, found: list[str], missed: list[str]) -> None:
    automaton = pattern_dfa(source)
    assert [one for one in (*found, *missed) if automaton.accepts(one)] == found


@pytest.mark.contract("JST-5", "GDE-11")
def test_several_patterns_are_intersected_in_the_decoded_value() -> None:
    both = reduce(intersection, map(pattern_dfa, ('^[a\\n"]+$', "\\n", '"$')))
    assert both.accepts('\n"')
    assert spelled(both).accepts('\\n\\"')
    assert not spelled(both).accepts('\n"')
    assert shortest_text(spelled(both)) == '\\n\\"'


@pytest.mark.contract("RGX-1", "RGX-6", "RGX-7")
def test_both_entrances_refuse_the_same_and_give_different_languages() -> None:
    for entrance in (fullmatch_dfa, pattern_dfa):
        with pytest.raises(InvalidRegex) as refused:
            entrance("ab(?=c)")
        assert refused.value.offset == 2
    assert list(texts(fullmatch_dfa("a|b"))) == ["a", "b"]
    assert not is_finite(pattern_dfa("a|b"))
    assert list(texts(fullmatch_dfa(""))) == [""]
    assert fullmatch_dfa("[^\\s\\S]") == NO_TEXT


@pytest.mark.contract("RGX-8", "CMP-9")
@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ("(?:a|b)*a(?:a|b){40}", "regular_states"),
        ("(?:a?b?){4000}", "automaton_steps"),
        ("[ab]{70000}", "regular_states"),
        ("(?:(?:a{0,90}b{0,90}){0,90})", "automaton_steps"),
    ],
)
def test_expression_that_would_explode_is_refused_with_the_count(source: str, limit: str) -> None:
    with cpu_within(30):
        with pytest.raises(LimitExceeded) as refused:
            fullmatch_dfa(source)
        assert refused.value.limit == limit
        assert refused.value.given is not None
        assert refused.value.given > refused.value.allowed


@pytest.mark.contract("RGX-8")
def test_long_automata_are_built_in_time() -> None:
    with cpu_within(30):
        assert len(fullmatch_dfa("[a-z]{0,8000}").edges) == 8_001
        assert len(fullmatch_dfa("(?:a|b)*a(?:a|b){10}").edges) == 2_048
        assert len(pattern_dfa("|".join(f"{number:04x}" for number in range(2_000))).edges) < REGULAR_STATES
