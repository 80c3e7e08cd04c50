"""Renamed grammars describe the same language and share no rule with another one."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.grammar.ir import Grammar, Repeat, Rule, alternation, sequence, text, walk
from ninfer_vllm.grammar.naming import prefixed
from ninfer_vllm.grammar.sample import sample
from tests.support.grammars import grammars


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
