"""Grammars made to hold up an engine: bounded work each call, or a refusal with the limit's name."""

import numpy as np
import pytest

from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.native import automaton
from ninfer_vllm.engines.native import grammar as native_grammar
from ninfer_vllm.engines.native.engine import MEASURED_EVERY, NativeEngine, NativeGrammar
from ninfer_vllm.engines.native.grammar import Run
from ninfer_vllm.engines.native.matcher import NativeMatcher
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.ir import Alternation, Chars, Expr, Grammar, Literal, Repeat, Rule, Sequence
from ninfer_vllm.languages.lowering import lower
from tests.support.vocabularies import byte_vocabulary

ANYTHING = Chars(ANY)
LETTERS = Chars(CharSet.from_ranges([(0x61, 0x7A)]))
A = Literal(b"a")
FEW_STEPS = 5_000
"""Closing steps of one call that are some milliseconds."""


def repeated(item: Expr, times: int, minimum: int, maximum: int) -> Expr:
    for _ in range(times):
        item = Repeat(item, minimum, maximum)
    return item


def arrays(depth: int) -> dict[str, Expr]:
    """Two equal alternatives at each of many levels: 2**depth readings."""
    rules: dict[str, Expr] = {f"r{depth}": LETTERS}
    for level in range(depth):
        inner = Rule(f"r{level + 1}")
        item = Sequence((Literal(b"["), inner, Repeat(Sequence((Literal(b","), inner)), 0, None), Literal(b"]")))
        rules[f"r{level}"] = Alternation((item, Sequence((item, Literal(b"")))))
    return rules


HARD: dict[str, tuple[dict[str, Expr], bytes]] = {
    "nested counts": ({"root": Sequence((repeated(A, 3, 0, 300), Literal(b"b")))}, b"a" * 300 + b"b"),
    "nested exact counts": ({"root": repeated(Alternation((A, Literal(b"aa"))), 3, 2, 30)}, b"a" * 60),
    "ambiguous count": ({"root": Repeat(Alternation((A, Literal(b"aa"), Literal(b"aaa"))), 0, 400)}, b"a" * 300),
    "two counts side by side": ({"root": Sequence((Repeat(A, 0, 500), Repeat(A, 500, 500)))}, b"a" * 600),
    "text, a mark, a count": (
        {"root": Sequence((Repeat(ANYTHING, 0, None), A, Repeat(ANYTHING, 15, 15)))},
        b"banana" * 9,
    ),
    "long count": ({"root": Repeat(LETTERS, 0, 2**31 - 1)}, b"abc" * 100),
    "2**20 readings": ({"root": Rule("r0"), **arrays(20)}, b"[" * 20 + b"a" + b"]" * 20),
    "deep nesting": (
        {"root": Alternation((Sequence((Literal(b"["), Rule("root"), Literal(b"]"))), A))},
        b"[" * 2000 + b"a",
    ),
    "long literal": ({"root": Literal(b"ab" * 500_000)}, b"ab" * 300),
    "many literals": ({"root": Alternation(tuple(Literal(b"item %d" % at) for at in range(20_000)))}, b"item 19999"),
    "chain of rules": ({**{f"r{at}": Rule(f"r{at + 1}") for at in range(5000)}, "r5000": A, "root": Rule("r0")}, b"a"),
    "many optional parts": (
        {"root": Sequence(tuple(Repeat(Literal(b"p%d," % at), 0, 1) for at in range(400)))},
        b"p7,p399,",
    ),
}


@pytest.mark.contract("CMP-9", "SEC-2", "ERR-6", "PRF-4")
@pytest.mark.parametrize("name", HARD)
def test_hard_grammar_takes_little_work_a_call(
    octets_native: NativeEngine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automaton, "NATIVE_STEPS", FEW_STEPS)
    rules, text = HARD[name]
    matcher = octets_native.compile(Grammar(rules, "root")).matcher()
    row = np.zeros(byte_vocabulary().words, np.int32)
    for byte in text:
        assert matcher.fill(row)
        assert matcher.accept(byte)


@pytest.mark.contract("CMP-9", "SEC-2", "ERR-6")
def test_too_much_work_in_one_call_is_a_named_limit_and_changes_nothing(
    octets_native: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, text = HARD["ambiguous count"]
    matcher = octets_native.compile(Grammar(rules, "root")).matcher()
    monkeypatch.setattr(automaton, "NATIVE_STEPS", 3)
    with pytest.raises(LimitExceeded, match="native_steps"):
        matcher.accept_bytes(text)
    monkeypatch.undo()
    assert matcher.accept_bytes(text) == len(text)


def string_matcher(engine: NativeEngine) -> tuple[NativeGrammar, NativeMatcher]:
    value = lower(OutputConstraint.json_schema({"type": "array", "items": {"type": "string", "maxLength": 100_000}}))
    compiled = engine.compile(value)
    return compiled, compiled.matcher()


@pytest.mark.contract("SES-6", "MSK-8", "CMP-6")
def test_memory_stays_bounded_however_long_the_output_is(
    octets_native: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_grammar, "NATIVE_GRAMMAR_BYTES", 1 << 20)
    compiled, matcher = string_matcher(octets_native)
    row = np.zeros(byte_vocabulary().words, np.int32)
    assert matcher.accept_bytes(b'["') == 2
    runs: list[Run] = []
    for at in range(6000):
        assert matcher.accept(97 + at % 26)
        assert matcher.fill(row)
        matcher.forget()
        if compiled.current() not in runs:
            runs.append(compiled.current())
        assert compiled.run_bytes < 2 << 20
    assert len(runs) > 1
    assert matcher.accept_bytes(b'","b"]') == 6
    assert matcher.complete


@pytest.mark.contract("CMP-6")
def test_what_was_found_out_about_the_oldest_grammar_goes_first(
    octets_native: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = string_matcher(octets_native)
    new, _ = string_matcher(octets_native)
    before = old.current(), new.current()
    monkeypatch.setattr("ninfer_vllm.engines.native.engine.NATIVE_TOTAL_BYTES", new.run_bytes * 2)
    for _ in range(MEASURED_EVERY):
        octets_native.compile(Grammar({"root": A}, "root"))
    assert old.current() is not before[0]
    assert new.current() is before[1]
