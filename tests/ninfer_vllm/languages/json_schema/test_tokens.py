"""Flexible white space stands between tokens only, and never runs away."""

from __future__ import annotations

import json
import random

import pytest

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.json_schema import lower_json_object, lower_json_schema
from tests.support.oracles.recogniser import Recogniser

FLEXIBLE = JsonOptions(whitespace="flexible")
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": {"enum": [{"x": [1, 2]}, "s p"]}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.contract("JSO-7")
def test_white_space_stands_between_tokens() -> None:
    recogniser = Recogniser(lower_json_schema(json.dumps(SCHEMA), FLEXIBLE))
    value = {"a": [1, 2], "b": {"x": [1, 2]}}
    for text in (json.dumps(value), json.dumps(value, indent=2), json.dumps(value, separators=(",", ":"))):
        assert recogniser.accepts(text), text
    for text in ('{ "a" : [ ] , "b" : "s p" }', '{"a"\n\n:[]}', '{"a":\r\n[]}', '{"a":[' + " " * 20 + "]}"):
        assert recogniser.accepts(text), text


@pytest.mark.contract("JSO-7")
def test_white_space_is_bounded() -> None:
    recogniser = Recogniser(lower_json_schema(json.dumps(SCHEMA), FLEXIBLE))
    for text in (
        '{"a":[' + " " * 21 + "]}",
        '{"a":\n\n\n[]}',
        '{"a":\r[]}',
        ' {"a":[]}',
        '{"a":[]} ',
        '{"a":[1 2]}',
        '{"a":[-\t1]}',
        '{"a":[],"b":"s  p"}',
    ):
        assert not recogniser.accepts(text), text


@pytest.mark.contract("JSO-3", "JSO-7")
def test_default_is_compact() -> None:
    recogniser = Recogniser(lower_json_schema(json.dumps(SCHEMA), JsonOptions()))
    assert recogniser.accepts('{"a":[1,2],"b":{"x":[1,2]}}')
    assert not recogniser.accepts('{"a": [1]}')
    assert not recogniser.accepts('{"a":[],"b":{"x": [1,2]}}')


@pytest.mark.contract("JSO-7")
def test_flexible_objects_are_json() -> None:
    grammar = lower_json_object(FLEXIBLE)
    for seed in range(30):
        assert isinstance(json.loads(sample(grammar, random.Random(seed), 60)), dict)
