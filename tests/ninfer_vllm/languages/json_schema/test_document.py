"""The reader takes strict JSON only, and every fault has its line and column."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import InvalidGrammar, LimitExceeded, MalformedSchemaText
from ninfer_vllm.languages.json_schema.document import Numeral, read_document
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.limits import NESTING_DEPTH, SCHEMA_TEXT_CHARS

documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
    lambda below: st.one_of(st.lists(below), st.dictionaries(st.text(), below)),
)


@pytest.mark.contract("JSD-9")
@given(documents, st.sampled_from([None, 0, 2]), st.booleans())
def test_reader_agrees_with_the_standard_one(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read_document(text) == value
    assert read_document(f" \t\r\n{text}\n") == value


@given(st.text('{}[]",:0123-.eE+truefalsn \\u00dD', max_size=12))
def test_reader_refuses_what_the_standard_one_refuses(text: str) -> None:
    try:
        json.loads(text, parse_constant=_refuse)
        standard = ""
    except ValueError:
        standard = "refused"
    reason = ""
    try:
        read_document(text)
    except MalformedSchemaText as error:
        reason = error.reason
    assert bool(reason) == bool(standard) or "twice" in reason or "surrogate" in reason


@pytest.mark.contract("JSD-9")
@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('{"type": "object"', 1, 18, "expected ',' or '}'"),
        ('{"a": 1,\n "b": 2,\n  "a": 3}', 3, 3, "the key 'a' occurs twice"),
        ('{"a": {"b": 1, "\\u0062": 2}}', 1, 16, "the key 'b' occurs twice"),
        ('{\n  "minimum": NaN\n}', 2, 14, "NaN is no JSON number"),
        ("[-Infinity]", 1, 2, "-Infinity is no JSON number"),
        ("[1,]", 1, 4, "expected a JSON value"),
        ("{'a': 1}", 1, 2, "expected a key in double quotes"),
        ('{"a" 1}', 1, 6, "expected ':'"),
        ("", 1, 1, "expected a JSON value"),
        ("{} {}", 1, 4, "expected the end"),
        ('"a\nb"', 1, 3, "a control character"),
        ('"abc', 1, 5, "the string does not end"),
        ('["\\x"]', 1, 3, "an unknown escape"),
        ('["\\u12"]', 1, 3, "four hexadecimal digits"),
        ('["x\\ud800y"]', 1, 2, "an unpaired surrogate"),
        ("[01]", 1, 3, "expected ',' or ']'"),
        ("[1 2]", 1, 4, "expected ',' or ']'"),
        ("tru", 1, 1, "expected a JSON value"),
        ("[1,\r2,\r\n 3,\n\n  x]", 5, 3, "expected a JSON value"),
    ],
)
def test_fault_has_line_and_column(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(MalformedSchemaText) as caught:
        read_document(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


def test_numbers_keep_their_spelling() -> None:
    assert read_document("[1, -0, 1.50, 1e2]") == [1, 0, Numeral("1.50"), Numeral("1e2")]
    assert read_document("9" * 5000) == Numeral("9" * 5000)


def test_escaped_pair_is_one_character() -> None:
    assert read_document('"\\ud83d\\ude00"') == "😀"


@pytest.mark.contract("SEC-2")
def test_depth_and_length_are_limited() -> None:
    depth = NESTING_DEPTH
    assert read_document("[" * depth + "]" * depth) != 0
    for text in ("[" * (depth + 1), '{"a":' * 100_000, " " * (SCHEMA_TEXT_CHARS + 1)):
        with pytest.raises(LimitExceeded):
            read_document(text)


def _refuse(name: str) -> None:
    raise ValueError(name)


@pytest.mark.contract("JSD-9", "ERR-1")
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_are_counted_alike_for_every_fault_of_a_source(end: str) -> None:
    """A surrogate is found before the text is read, other faults by the reader, those of a grammar by its own."""
    before = f"[1,{end}{end}  "
    with pytest.raises(MalformedSchemaText) as read:
        read_document(f"{before}?]")
    with pytest.raises(MalformedSchemaText) as held:
        OutputConstraint.json_schema(f"{before}\ud800]")
    with pytest.raises(InvalidGrammar) as grammar:
        lower(OutputConstraint.grammar(f'root ::= "a"{end}{end}  &'))
    for fault in (read, held, grammar):
        assert (fault.value.line, fault.value.column) == (3, 3)
