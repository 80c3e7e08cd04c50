"""Automata over decoded characters are spelled as JSON strings spell them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.algebra import complement, counted, finite
from ninfer_vllm.automata.expressions import pattern_dfa
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.languages.json_schema.schema import Length, Pattern
from ninfer_vllm.languages.json_schema.shapes import Strings
from ninfer_vllm.languages.json_schema.strings import all_but, character, patterned, spelled
from ninfer_vllm.limits import AUTOMATON_LENGTH
from tests.support.oracles.recogniser import Recogniser

texts = st.text('ab"\\\b\n\x00\x0b\x1f\x7f/é漢😀', max_size=5)


def spelling(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


@pytest.mark.contract("JSO-4")
def test_every_character_has_its_one_spelling() -> None:
    recogniser = Recogniser(Grammar({"root": character()}, "root"))
    for code in (*range(0x100), 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x10FFFF):
        assert recogniser.accepts(spelling(chr(code))), hex(code)
        escape = f"\\u{code:04x}" if code < 0x10000 else ""
        assert recogniser.accepts(escape) == (escape == spelling(chr(code)))
    for text in ("\\u000B", "\\/", '"', "\\", "", "ab", "\\a"):
        assert not recogniser.accepts(text)


@pytest.mark.contract("JSO-6")
@settings(max_examples=200, deadline=None)
@given(st.lists(texts, max_size=6), st.lists(texts, max_size=10))
def test_all_but_has_every_other_string(declared: list[str], others: list[str]) -> None:
    automaton = all_but(declared)
    near = [text[:size] for text in declared for size in range(len(text))] + [text + "a" for text in declared]
    for text in (*declared, *others, *near):
        assert automaton.accepts(spelling(text)) == (text not in declared)
    for text in declared:
        escaped = "".join(f"\\u{ord(char):04x}" for char in text)
        assert not automaton.accepts(escaped), "another spelling of a declared key"


@pytest.mark.contract("JSO-4", "JST-5")
@settings(max_examples=100, deadline=None)
@given(st.lists(texts, min_size=1, max_size=4), st.lists(texts, max_size=8), st.integers(0, 3), st.integers(0, 3))
def test_patterns_and_length_hold_at_once(allowed: list[str], others: list[str], minimum: int, extra: int) -> None:
    patterns = (
        Pattern(("allowed", *allowed), finite(allowed)),
        Pattern(("others", *others), complement(finite(others))),
    )
    automaton = patterned(Strings(Length(minimum, minimum + extra), patterns), "")
    for text in (*allowed, *others):
        inside = text in allowed and text not in others and minimum <= len(text) <= minimum + extra
        assert automaton.accepts(spelling(text)) == inside


def test_spelling_counts_decoded_characters() -> None:
    automaton = spelled(counted(2, 2))
    assert automaton.accepts("\\n\\u0001")
    assert not automaton.accepts("\\n")


def test_length_that_a_pattern_has_anyway_costs_nothing() -> None:
    word = Pattern("word", pattern_dfa("^[a-z]{3}$"))
    assert patterned(Strings(Length(1, 5), (word,)), "") == patterned(Strings(Length(), (word,)), "")


@pytest.mark.contract("JSC-5")
def test_length_in_an_intersection_is_limited() -> None:
    with pytest.raises(LimitExceeded):
        patterned(Strings(Length(0, AUTOMATON_LENGTH + 1), (Pattern("a+", pattern_dfa("^a+$")),)), "/pattern")
