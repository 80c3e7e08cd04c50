"""Values given as schemas: their JSON text, or the place of the first part that has none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConstraintError, InvalidChoice, InvalidGrammar, InvalidRegex, InvalidSchema
from ninfer_vllm.limits import NESTING_DEPTH
from ninfer_vllm.spelling import schema_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"not": value}
    return value


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["not"] = value
    return value


@pytest.mark.contract("REQ-1")
@given(JSON)
def test_every_json_value_is_spelled(value: Any) -> None:
    assert json.loads(schema_text(value)) == value


@pytest.mark.contract("JSD-8", "JSD-9", "ERR-1")
@pytest.mark.parametrize(
    ("schema", "pointer", "said"),
    [
        ({"properties": {"a": {"maximum": float("inf")}}}, "/properties/a/maximum", "inf"),
        ({"a": [1, float("nan")]}, "/a/1", "nan"),
        ({"enum": [{1, 2}]}, "/enum/0", "set"),
        ({"properties": {"a/b~": {"const": "x\ud800"}}}, "/properties/a~1b~0/const", "surrogate"),
        ({"properties": {"\udfff": {}}}, "/properties", "a key"),
        ({"properties": {("a",): {}}}, "/properties", "('a',)"),
        (nested(NESTING_DEPTH + 1_000), "/not" * NESTING_DEPTH, "nesting_depth"),
        (cyclic(), "/not" * NESTING_DEPTH, "nesting_depth"),
    ],
)
def test_what_has_no_json_spelling_is_refused_at_its_pointer(schema: Any, pointer: str, said: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        OutputConstraint.json_schema(schema)
    assert caught.value.place["pointer"] == pointer
    assert said in str(caught.value)


@pytest.mark.contract("RGX-6", "GBNF-2", "JSD-9", "CHO-1")
@pytest.mark.parametrize(
    ("make", "kind", "place"),
    [
        (lambda: OutputConstraint.regex("aé\ud800"), InvalidRegex, {"offset": 2}),
        (lambda: OutputConstraint.grammar('root ::= "a"\r\nb ::= "\udfff"'), InvalidGrammar, {"line": 2, "column": 8}),
        (lambda: OutputConstraint.choice(["a", "\ud800"]), InvalidChoice, {"index": 1}),
        (lambda: OutputConstraint("choice", "", ("a", 1)), InvalidChoice, {"index": 1}),  # type: ignore[arg-type]
        (lambda: OutputConstraint.json_schema({"const": "\ud800"}), InvalidSchema, {"pointer": "/const"}),
    ],
)
def test_text_that_is_not_unicode_is_refused_where_it_stands(make: Any, kind: type, place: dict[str, Any]) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert caught.value.place == place


@pytest.mark.contract("JSD-9")
def test_schema_text_that_is_not_unicode_is_refused_by_line_and_column() -> None:
    with pytest.raises(ConstraintError) as caught:
        OutputConstraint.json_schema('{"const":\n"\ud800"}')
    assert (caught.value.code, caught.value.place) == ("invalid_schema", {"line": 2, "column": 2})


@pytest.mark.contract("REQ-1", "ERR-1")
@pytest.mark.parametrize(
    "fields", [("regex", 1), ("choice", "", "ab"), ("regex", "a", (), None), ("other", ""), ("grammar", b"root")]
)
def test_constraints_built_by_hand_are_checked_too(fields: tuple[Any, ...]) -> None:
    with pytest.raises(ConstraintError):
        OutputConstraint(*fields)
