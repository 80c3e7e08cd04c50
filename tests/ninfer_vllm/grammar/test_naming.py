"""Renamed grammars describe the same language and share no rule with another one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.automata.algebra import counted
from ninfer_vllm.grammar.ir import Grammar, Regular, Repeat, Rule, alternation, sequence, text, walk
from ninfer_vllm.grammar.naming import SHARED_STATES, prefixed, with_shared_texts
from ninfer_vllm.grammar.sample import sample
from tests.support.grammars import grammars
from tests.support.oracles.recogniser import accepts


@given(grammars(), st.integers(0, 9))
def test_renamed_grammar_derives_the_same_texts(grammar: Grammar, seed: int) -> None:
    renamed = prefixed(grammar, "p_")
    assert all(name.startswith("p_") for name in renamed.rules)
    outcomes = []
    for one in (grammar, renamed):
        try:
            outcomes.append(sample(one, random.Random(seed), 20, lambda _: b"t"))
        except ValueError as error:
            outcomes.append(type(error).__name__.encode())
    assert outcomes[0] == outcomes[1]


def test_every_reference_is_renamed() -> None:
    inner = Repeat(alternation(Rule("a"), sequence(text("x"), Rule("b"))), 0, 3)
    renamed = prefixed(Grammar({"a": inner, "b": text("y")}, "a"), "t0_")
    names = [node.name for body in renamed.rules.values() for node in walk(body) if isinstance(node, Rule)]
    assert names == ["t0_a", "t0_b"]
    assert renamed.root == "t0_a"


def test_deep_expressions_are_renamed() -> None:
    deep = Rule("a")
    for _ in range(50_000):
        deep = Repeat(deep, 0, 2)  # type: ignore[assignment]
    assert prefixed(Grammar({"a": deep}, "a"), "x").root == "xa"


LARGE, SMALL = Regular(counted(1, SHARED_STATES)), Regular(counted(1, 3))
SHARED = {
    "a": sequence(text("<"), LARGE, text(">"), alternation(Rule("b"), Repeat(LARGE, 0, 1))),
    "b": sequence(text("."), LARGE, text("."), SMALL, text("."), SMALL),
}


def test_large_automaton_of_several_places_stands_once() -> None:
    rules = with_shared_texts(SHARED, "s")
    found = [node for body in rules.values() for node in walk(body) if isinstance(node, Regular)]
    assert (found.count(LARGE), found.count(SMALL)) == (1, 2)
    assert rules["s0"] == LARGE
    assert with_shared_texts({"a": sequence(text("x"), LARGE)}, "s") == {"a": sequence(text("x"), LARGE)}


@pytest.mark.parametrize("words", ["<a>", "<ab>.cd.ef.ghi", "<>", "<a>.b.c.defg", f"<{'x' * SHARED_STATES}>.a.b.c"])
def test_shared_automata_leave_the_language_as_it_is(words: str) -> None:
    one, other = Grammar(SHARED, "a"), Grammar(with_shared_texts(SHARED, "s"), "a")
    assert accepts(one, words) is accepts(other, words)
    for seed in range(5):
        drawn = [sample(grammar, random.Random(seed), 20, lambda _: b"t") for grammar in (one, other)]
        assert drawn[0] == drawn[1]
