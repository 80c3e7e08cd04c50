"""Regular grammars of every language become the automaton over bytes of the same language."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, settings

from ninfer_vllm import OutputConstraint
from ninfer_vllm.errors import LimitExceeded, Unsatisfiable, UnsupportedByEngine
from ninfer_vllm.grammar.checks import recursive_rules
from ninfer_vllm.grammar.ir import Grammar, Repeat, Rule, Token, sequence, text
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.guide.lower import byte_dfa
from ninfer_vllm.languages.lowering import lower
from tests.support.expressions import expression
from tests.support.expressions import text as random_text
from tests.support.grammars import grammars
from tests.support.oracles.recogniser import Recogniser

SHORT = [bytes(data) for size in range(4) for data in product("abé".encode(), repeat=size)]


@pytest.mark.contract("GDE-1", "GDE-2")
@settings(max_examples=120, deadline=None)
@given(grammars())
def test_grammar_without_recursion_keeps_its_language(grammar: Grammar) -> None:
    recogniser = Recogniser(grammar)
    try:
        automaton = byte_dfa(grammar)
    except UnsupportedByEngine:
        assert recursive_rules(grammar)
        return
    except Unsatisfiable:
        assert not recogniser.productive[recogniser.root]
        return
    for data in SHORT:
        assert automaton.accepts(data) == recogniser.accepts(data)
        assert (automaton.run(data) >= 0) == recogniser.is_prefix(data)


@pytest.mark.contract("GDE-1", "GDE-11")
def test_expressions_and_schemas_lower_to_the_same_automata_as_everything_else() -> None:
    rng = random.Random(8)
    for _ in range(60):
        grammar = lower(OutputConstraint.regex(expression(rng).ours or "a"))
        automaton, recogniser = byte_dfa(grammar), Recogniser(grammar)
        for data in [*(random_text(rng, 4).encode() for _ in range(12)), sample(grammar, rng, 6)]:
            assert automaton.accepts(data) == recogniser.accepts(data)


@pytest.mark.contract("GDE-1")
@pytest.mark.parametrize(
    ("source", "inside", "outside"),
    [
        ('root ::= "a" root | "b"', ["b", "aab"], ["", "a", "ba"]),
        ('root ::= item | item "," root\nitem ::= [0-9]+', ["1", "1,22,3"], ["", "1,", ",1"]),
        ('root ::= "x" even\neven ::= "" | "a" odd\nodd ::= "a" even', ["x", "xaa"], ["xa", "aa"]),
    ],
)
def test_rule_that_ends_in_itself_is_a_loop(source: str, inside: list[str], outside: list[str]) -> None:
    automaton = byte_dfa(lower(OutputConstraint.grammar(source)))
    assert [one for one in (*inside, *outside) if automaton.accepts(one.encode())] == inside


@pytest.mark.contract("GDE-1")
@pytest.mark.parametrize(
    "source",
    [
        'root ::= "(" root ")" | ""',
        'root ::= a "x" | "y"\na ::= "p" root "q" | "r"',
        'root ::= root "a" | "b"',
        'root ::= (root "a")? "b"',
    ],
)
def test_rule_inside_itself_is_refused_by_name(source: str) -> None:
    with pytest.raises(UnsupportedByEngine, match="the guide engine does not run recursion: rule"):
        byte_dfa(lower(OutputConstraint.grammar(source)))


@pytest.mark.contract("GDE-1")
def test_recursive_schema_and_token_terminals_are_refused() -> None:
    with pytest.raises(UnsupportedByEngine, match="recursion"):
        byte_dfa(lower(OutputConstraint.json_object()))
    with pytest.raises(UnsupportedByEngine, match="token terminals"):
        byte_dfa(Grammar({"root": sequence(text("a"), Token(frozenset((1,))))}, "root"))


@pytest.mark.contract("GDE-2", "SEC-2", "CMP-10")
def test_size_is_limited_and_an_empty_language_is_named() -> None:
    with pytest.raises(LimitExceeded) as refused:
        byte_dfa(Grammar({"root": Repeat(text("ab"), 0, 10**9)}, "root"))
    assert refused.value.limit == "nfa_states"
    doubling = {f"r{at}": sequence(Rule(f"r{at + 1}"), Rule(f"r{at + 1}")) for at in range(40)}
    with pytest.raises(LimitExceeded):
        byte_dfa(Grammar({**doubling, "r40": text("a")}, "r0"))
    with pytest.raises(Unsatisfiable):
        byte_dfa(Grammar({"root": sequence(text("a"), Rule("root"))}, "root"))


@pytest.mark.contract("GDE-2", "SEC-2")
def test_work_is_limited_where_states_are_few_enough() -> None:
    # Every set of the last fifteen places is a state of its own: 2**15 sets, each of up to fifteen members.
    with pytest.raises(LimitExceeded) as refused:
        byte_dfa(lower(OutputConstraint.regex(".*[ab].{15}")))
    assert refused.value.limit in ("preparation_steps", "regular_states")
