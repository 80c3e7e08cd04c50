"""Equal rules made one: the language stays, and what is written twice is said once."""

import random

import pytest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import Unsatisfiable
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.grammar.ir import Alternation, Grammar, Literal, Repeat, Rule, Sequence
from ninfer_vllm.grammar.merge import merged
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.lowering import lower
from tests.support.oracles.recogniser import Recogniser
from tests.support.wide_grammars import wide_grammar

NUM_GRAMMARS = 200


@pytest.mark.contract("GEN-1", "JSC-1")
def test_language_stays_the_same() -> None:
    compared = 0
    for seed in range(NUM_GRAMMARS):
        try:
            grammar = prune(wide_grammar(seed))
        except Unsatisfiable:
            continue
        one = merged(grammar)
        for old, new in ((grammar, one), (one, grammar)):
            assert Recogniser(new).accepts(sample(old, random.Random(seed), 12))
        compared += 1
    assert compared > NUM_GRAMMARS // 4


@pytest.mark.contract("GEN-1")
def test_equal_rules_are_one_and_the_root_is_nobody_elses() -> None:
    def listed(name: str) -> Sequence:
        return Sequence((Literal(b"["), Repeat(Rule(name), 0, None), Literal(b"]")))

    rules = {
        "root": Alternation((Rule("one"), Rule("other"))),
        "one": listed("a"),
        "other": listed("b"),
        "a": Literal(b"x"),
        "b": Literal(b"x"),
        "unused": Literal(b"y"),
    }
    found = merged(Grammar(rules, "root"))
    assert found.rules == {"root": Rule("one"), "one": listed("a"), "a": Literal(b"x")}


@pytest.mark.contract("GEN-1")
def test_rules_that_refer_to_themselves_stay_apart() -> None:
    def nested(name: str) -> Alternation:
        return Alternation((Sequence((Literal(b"["), Rule(name), Literal(b"]"))), Literal(b"x")))

    grammar = Grammar({"root": Alternation((Rule("a"), Rule("b"))), "a": nested("a"), "b": nested("b")}, "root")
    assert merged(grammar) == grammar


@pytest.mark.contract("CMP-9", "SEC-2")
def test_equal_alternatives_of_a_schema_cost_as_much_as_one() -> None:
    schema: dict[str, object] = {"type": "integer"}
    for _ in range(8):
        schema = {"anyOf": [{"type": "array", "items": schema}, {"type": "array", "items": schema}]}
    assert len(lower(OutputConstraint.json_schema(schema)).rules) < 12
