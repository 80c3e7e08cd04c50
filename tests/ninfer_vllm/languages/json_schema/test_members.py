"""Closed objects member by member: what the strings and the other values of a member are."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ninfer_vllm.automata.algebra import ANY_TEXT, complement, finite
from ninfer_vllm.constraint import DEFAULT_OPTIONS
from ninfer_vllm.errors import UnsupportedSchema
from ninfer_vllm.grammar.ir import Grammar, alternation, sequence, text
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.json_schema.document import read_document
from ninfer_vllm.languages.json_schema.members import ClosedObject


def closed_object(properties: dict[str, Any], **changes: Any) -> tuple[ClosedObject, dict[str, Any]]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **changes}
    return ClosedObject.of(read_document(json.dumps(schema)), DEFAULT_OPTIONS), schema


def texts_of(grammar: Grammar, count: int = 30) -> set[str]:
    return {sample(grammar, random.Random(seed), 40).decode() for seed in range(count)}


@pytest.mark.contract("TOOL-7")
def test_strings_are_told_from_other_values() -> None:
    found, _ = closed_object({"a": {"enum": ["x", 1, None]}, "b": {"type": ["string", "array"]}, "c": {"type": "null"}})
    kinds = [(member.name, member.has_strings, bool(member.others)) for member in found.members]
    assert kinds == [("a", True, True), ("b", True, True), ("c", False, True)]


@pytest.mark.contract("TOOL-8")
def test_raw_strings_keep_pattern_length_and_what_is_allowed() -> None:
    found, _ = closed_object({"a": {"type": "string", "pattern": "^[abc]*$", "minLength": 1, "maxLength": 2}})
    raw = found.members[0].raw(complement(finite(["ab"])))
    assert [text for text in ("", "a", "ab", "ba", "abc", "d") if raw.accepts(text)] == ["a", "ba"]


@pytest.mark.contract("TOOL-7")
@pytest.mark.parametrize(
    ("schema", "is_apart"),
    [({"enum": ["x", 1]}, True), ({"enum": ["1", 1]}, False), ({"enum": ['{"a": 1}', {"a": 1}]}, False)],
)
def test_texts_of_other_values_are_compared_as_they_are_written(schema: Any, is_apart: bool) -> None:
    found, _ = closed_object({"a": schema})
    member = found.members[0]
    assert member.is_apart(member.raw(ANY_TEXT)) is is_apart


@pytest.mark.contract("TOOL-4", "TOOL-6")
def test_json_texts_are_valid_and_written_as_json_dumps_does() -> None:
    properties = {"a": {"type": "array", "items": {"type": "integer"}}, "b": {"const": {"k": [1, "é"]}}}
    found, schema = closed_object(properties, minProperties=1)
    texts = texts_of(found.json())
    for written in texts:
        value = json.loads(written)
        Draft202012Validator(schema).validate(value)
        assert json.dumps(value, ensure_ascii=False) == written
    assert len(texts) > 5


@pytest.mark.contract("TOOL-4")
def test_framed_members_come_in_every_allowed_number() -> None:
    found, _ = closed_object({name: {"type": "null"} for name in "abc"}, required=["b"], maxProperties=2)
    grammar = found.framed(lambda member, write: sequence(text(member.name), alternation(write(member.others))))
    assert {written.replace("null", "") for written in texts_of(grammar, 60)} == {"b", "ab", "bc"}


@pytest.mark.contract("TOOL-9")
@pytest.mark.parametrize(
    "changes", [{"additionalProperties": {}}, {"patternProperties": {"^x": {}}}, {"type": "array"}]
)
def test_open_and_other_roots_are_refused(changes: Any) -> None:
    with pytest.raises(UnsupportedSchema):
        closed_object({"a": {"type": "null"}}, **changes)
