"""Subset construction: only as far as asked, limited, and equal to the complete automaton."""

from __future__ import annotations

import pytest

from ninfer_vllm.automata.algebra import minimise
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.expressions import fullmatch_nfa, search_nfa
from ninfer_vllm.automata.lazy import LazyDfa, determinise
from ninfer_vllm.automata.nfa import NfaBuilder
from ninfer_vllm.errors import LimitExceeded

A = CharSet.from_chars("a")


@pytest.mark.contract("RGX-8", "GDE-11")
def test_states_are_built_when_a_text_reaches_them() -> None:
    lazy = LazyDfa(fullmatch_nfa("(?:a|b)*a(?:a|b){60}"))
    assert lazy.accepts("a" * 61)
    assert not lazy.accepts("b" * 61)
    assert not lazy.accepts("c")
    assert len(lazy) < 130


@pytest.mark.contract("GDE-2")
def test_complete_automaton_is_the_lazy_one() -> None:
    lazy = LazyDfa(fullmatch_nfa("(?:ab|c){2,3}"))
    complete = lazy.complete()
    assert len(complete.edges) == len(lazy)
    assert minimise(complete) == minimise(determinise(fullmatch_nfa("(?:ab|c)(?:ab|c)(?:(?:ab|c)|)")))


@pytest.mark.contract("RGX-7")
def test_state_that_accepts_everything_swallows_the_others() -> None:
    assert len(determinise(search_nfa("ab|(?:a|b)*a(?:a|b){9}")).edges) < 14
    found = determinise(search_nfa("a"))
    assert found.edges[1] == ((~CharSet(()), 1),)


@pytest.mark.contract("RGX-8", "SEC-2")
def test_work_is_limited() -> None:
    with pytest.raises(LimitExceeded) as refused:
        LazyDfa(fullmatch_nfa("a{9}"), allowed=8).complete()
    assert refused.value == LimitExceeded("automaton_steps", 8, 9)
    builder = NfaBuilder(allowed=2)
    with pytest.raises(LimitExceeded) as refused:
        builder.repeated(builder.state(), builder.state(), 10**9, None)
    assert refused.value == LimitExceeded("nfa_states", 2, 3)


@pytest.mark.parametrize(
    ("minimum", "maximum", "accepted"),
    [(0, 0, [0]), (0, None, [0, 1, 2, 3, 4]), (2, 2, [2]), (1, 3, [1, 2, 3]), (2, None, [2, 3, 4])],
)
def test_repeated_part_stands_as_often_as_asked(minimum: int, maximum: int | None, accepted: list[int]) -> None:
    builder = NfaBuilder()
    start, end = builder.state(), builder.state()
    for source, target in builder.repeated(start, end, minimum, maximum):
        builder.move(source, A, target)
    automaton = determinise(builder.finish(start, end))
    assert [size for size in range(5) if automaton.accepts("a" * size)] == accepted
