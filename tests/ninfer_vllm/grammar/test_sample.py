"""Random members are members, and always end."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ninfer_vllm.errors import Unsatisfiable
from ninfer_vllm.grammar.checks import productive_rules
from ninfer_vllm.grammar.ir import Alternation, ExcludeToken, Grammar, Repeat, Rule, Sequence, text
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.grammar.shortest import shortest
from tests.support.grammars import grammars
from tests.support.oracles.recogniser import Recogniser

FEWER = settings(max_examples=40, deadline=None)


@FEWER
@given(grammars(), st.randoms(use_true_random=False))
def test_samples_are_members(grammar: Grammar, rng: random.Random) -> None:
    assume("r0" in productive_rules(grammar))
    found = sample(grammar, rng, 12)
    assert Recogniser(grammar).accepts(found)


@FEWER
@given(grammars())
def test_a_sample_without_room_is_a_shortest_text(grammar: Grammar) -> None:
    assume("r0" in productive_rules(grammar))
    assert len(sample(grammar, random.Random(1), 0)) == shortest(grammar).rule("r0")


@pytest.mark.parametrize("hint", [0, 1, 100, 5000])
def test_explosive_recursion_ends_near_the_hint(hint: int) -> None:
    rule = Rule("root")
    grammar = Grammar({"root": Alternation((Sequence((rule, rule, rule)), rule, text("ab")))}, "root")
    for seed in range(20):
        assert len(sample(grammar, random.Random(seed), hint)) <= hint + 8


def test_empty_copies_of_a_long_repetition_end() -> None:
    grammar = Grammar({"root": Repeat(Repeat(text("a"), 0, 1), 2**31 - 1, 2**31 - 1)}, "root")
    assert set(sample(grammar, random.Random(1), 20)) <= set(b"a")


def test_samples_differ_and_reach_the_hint() -> None:
    grammar = Grammar({"root": Repeat(Alternation((text("a"), text("b"))), 0, None)}, "root")
    found = {sample(grammar, random.Random(seed), 40) for seed in range(200)}
    assert len(found) > 50
    assert max(map(len, found)) > 10


def test_a_grammar_without_text_is_refused() -> None:
    with pytest.raises(Unsatisfiable):
        sample(Grammar({"root": Rule("root")}, "root"), random.Random(1), 10)


def test_token_terminals_are_spelled_by_the_caller() -> None:
    grammar = Grammar({"root": ExcludeToken(frozenset([7]))}, "root")
    assert sample(grammar, random.Random(1), 10, lambda terminal: b"x") == b"x"
