"""Shortest texts are members and as short as the lengths say."""

import pytest
from hypothesis import assume, given, settings

from ninfer_vllm.errors import LimitExceeded, Unsatisfiable
from ninfer_vllm.grammar.checks import productive_rules
from ninfer_vllm.grammar.ir import Alternation, Expr, Grammar, Repeat, Rule, Sequence, Token, text
from ninfer_vllm.grammar.shortest import SATURATED, shortest, shortest_text
from tests.support.grammars import ALPHABET, grammars
from tests.support.oracles.recogniser import Recogniser

FEWER = settings(max_examples=40, deadline=None)


@FEWER
@given(grammars())
def test_shortest_text_is_a_member_of_the_shortest_length(grammar: Grammar) -> None:
    assume("r0" in productive_rules(grammar))
    found = shortest_text(grammar, 1000)
    assert Recogniser(grammar).accepts(found)
    assert len(found) == shortest(grammar).rule("r0")


@FEWER
@given(grammars())
def test_no_shorter_text_is_a_member(grammar: Grammar) -> None:
    length = shortest(grammar).rule("r0")
    recogniser = Recogniser(grammar)
    assert recogniser.accepts("") == (length == 0)
    for char in ALPHABET:
        assert not recogniser.accepts(char) or (length is not None and length <= len(char.encode()))


def test_a_rule_that_derives_itself_at_no_cost_still_ends() -> None:
    grammar = Grammar({"root": Alternation((Rule("root"), Repeat(Rule("root"), 2, 5), text("a")))}, "root")
    assert shortest_text(grammar, 10) == b"a"


def test_empty_copies_of_a_long_repetition_cost_nothing() -> None:
    grammar = Grammar({"root": Sequence((Repeat(Repeat(text("a"), 0, 1), 2**31 - 1, None), text("b")))}, "root")
    assert shortest_text(grammar, 1) == b"b"


def test_a_text_beyond_the_limit_is_refused() -> None:
    expr: Expr = text("a")
    for _ in range(100):
        expr = Repeat(expr, 1000, None)
    with pytest.raises(LimitExceeded) as caught:
        shortest_text(Grammar({"root": expr}, "root"), 1 << 20)
    assert caught.value.given == SATURATED


def test_a_grammar_without_text_is_refused() -> None:
    with pytest.raises(Unsatisfiable):
        shortest_text(Grammar({"root": Rule("root")}, "root"), 10)


def test_token_terminals_are_spelled_by_the_caller() -> None:
    grammar = Grammar({"root": Sequence((text("a"), Token(frozenset([7]))))}, "root")
    assert shortest_text(grammar, 10, lambda terminal: b"<7>") == b"a<7>"
    with pytest.raises(ValueError, match="spelling"):
        shortest_text(grammar, 10)
