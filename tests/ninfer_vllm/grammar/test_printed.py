"""Printed grammars are read back by our own GBNF reader where they use nothing but its constructs."""

from __future__ import annotations

import random

import pytest

from ninfer_vllm.automata.byteset import ByteSet
from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.automata.expressions import fullmatch_dfa
from ninfer_vllm.grammar.ir import (
    NOTHING,
    Alternation,
    Bytes,
    Chars,
    Expr,
    Grammar,
    Literal,
    Regular,
    Repeat,
    Rule,
    Sequence,
    Token,
    text,
)
from ninfer_vllm.grammar.printed import SHOWN_CHARS, class_text, printed
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.gbnf.lower import lower_gbnf
from tests.support.oracles.recogniser import Recogniser

pytestmark = pytest.mark.contract("API-6")

TEXTS = [
    'root ::= "a" (b | "c" "d")* [^x-z\\n]\nb ::= "e"{2,3} | "f" b?',
    'root ::= ("a" | "") ("b" ("c" | "d")+){2} | [a-c é\\]\\-]',
    'root ::= "\\"\\\\\\n" [\\x00-\\x1f] "\\u2028"',
]


@pytest.mark.parametrize("source", TEXTS)
def test_printed_grammar_means_the_same(source: str) -> None:
    grammar = lower_gbnf(source)
    again = lower_gbnf("\n".join(f"{rule.name} ::= {rule.body}" for rule in printed(grammar)))
    first, second = Recogniser(grammar), Recogniser(again)
    rng = random.Random(1)
    for _ in range(30):
        assert second.accepts(sample(grammar, rng, 12))
        assert first.accepts(sample(again, rng, 12))


@pytest.mark.parametrize(
    ("expr", "body"),
    [
        (Literal(b""), '""'),
        (Literal(b"\xff\x00"), '"\\xff\\x00"'),
        (NOTHING, "nothing"),
        (Chars(ANY), "any"),
        (Bytes(ByteSet.of([0, 255])), "<byte 00 ff>"),
        (Token(frozenset((7, 3))), "<token 3 7>"),
        (Repeat(Repeat(text("a"), 0, None), 2, 2), '"a"*{2}'),
        (Repeat(Sequence((text("a"), Rule("root"))), 0, 1), '("a" root)?'),
        (Sequence((Alternation((text("a"), text("b"))), text("c"))), '("a" | "b") "c"'),
        (Regular(fullmatch_dfa("[a-z]{1,400}")), '<automaton of 401 states and 400 edges, such as "a">'),
    ],
)
def test_expression_is_printed(expr: Expr, body: str) -> None:
    assert [rule.body for rule in printed(Grammar({"root": expr}, "root"))] == [body]


@pytest.mark.parametrize(
    ("chars", "shown"),
    [
        (CharSet.from_chars("a"), "[a]"),
        (CharSet.from_chars("ab"), "[ab]"),
        (~CharSet.from_chars("\n"), "[^\\n]"),
        (CharSet.from_ranges([(0x2028, 0x2029)]), "[\\u2028\\u2029]"),
        (CharSet.from_ranges([(0x1F600, 0x1F64F)]), "[😀-🙏]"),
    ],
)
def test_class_is_printed(chars: CharSet, shown: str) -> None:
    assert class_text(chars) == shown


def test_long_rules_are_cut_and_deep_ones_printed() -> None:
    wide = Alternation(tuple(text(f"word{at}") for at in range(10_000)))
    deep: Expr = text("a")
    for _ in range(5_000):
        deep = Sequence((Repeat(deep, 0, 1), text("b")))
    for expr in (wide, deep):
        (rule,) = printed(Grammar({"root": expr}, "root"))
        assert len(rule.body) < SHOWN_CHARS + 100
        assert "more characters" in rule.body
