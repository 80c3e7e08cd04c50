"""The option `property_order`: declared properties in their order, or in every order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.languages.json_schema import lower_json_schema
from ninfer_vllm.limits import MEMBER_SETS
from tests.support.oracles.recogniser import Recogniser

ANY = JsonOptions(property_order="any")
THREE = {"a": {"const": 1}, "b": {"enum": [1, 2]}, "c": {"type": "boolean"}}
CLOSED = {"type": "object", "additionalProperties": False}
MEMBERS = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("c", True), ("d", 1)]
"""Members that are tried, in every order; the last one is not declared."""


def grammar_of(schema: Any, options: JsonOptions = ANY) -> Recogniser:
    return Recogniser(lower_json_schema(json.dumps(schema), options))


def tried() -> Iterator[dict[str, object]]:
    """Every object of at most four of the members."""
    for size in range(5):
        for chosen in combinations(MEMBERS, size):
            if len({name for name, _ in chosen}) == size:
                yield from map(dict, permutations(chosen))


@pytest.mark.contract("JSX-10", "JST-2", "JST-3", "JSX-5")
@pytest.mark.parametrize(
    "schema",
    [
        {**CLOSED, "properties": THREE},
        {**CLOSED, "properties": THREE, "required": ["c"]},
        {**CLOSED, "properties": THREE, "required": ["b", "a", "c"]},
        {**CLOSED, "properties": THREE, "minProperties": 1, "maxProperties": 2},
        {**CLOSED, "properties": THREE, "dependentRequired": {"b": ["a"]}},
        {**CLOSED, "properties": {"a": {"const": 1}}},
        {"type": "object", "properties": THREE, "required": ["a"], "additionalProperties": {"const": 1}},
        {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "required": ["d", "a"]},
        {"anyOf": [{**CLOSED, "properties": {"a": {"const": 1}, "b": {"const": 3}}}, {**CLOSED, "properties": THREE}]},
    ],
)
def test_any_order_takes_every_order_of_declared_members_and_nothing_else(schema: Any) -> None:
    recogniser, validator = grammar_of(schema), Draft202012Validator(schema)
    for value in tried():
        names = list(value)
        is_last = "d" not in names[:-1]
        if is_last or not validator.is_valid(value):
            spelled = json.dumps(value, separators=(",", ":"))
            assert recogniser.accepts(spelled) == validator.is_valid(value), spelled


@pytest.mark.contract("JSX-10", "JSO-6")
def test_no_declared_member_is_written_twice() -> None:
    recogniser = grammar_of({**CLOSED, "properties": THREE})
    for first, second in product("abc", repeat=2):
        is_repeated = first == second
        values = {"a": "1", "b": "2", "c": "true"}
        text = f'{{"{first}":{values[first]},"{second}":{values[second]}}}'
        assert recogniser.accepts(text) != is_repeated


@pytest.mark.contract("JSX-10", "JSO-3")
def test_declared_order_is_the_default() -> None:
    recogniser = grammar_of({**CLOSED, "properties": THREE}, JsonOptions())
    assert recogniser.accepts('{"a":1,"b":2}')
    assert not recogniser.accepts('{"b":2,"a":1}')


@pytest.mark.contract("JSX-10", "GEN-6")
def test_more_members_than_sets_can_be_told_apart_are_refused_by_name() -> None:
    most = MEMBER_SETS.bit_length() - 1
    wide = {**CLOSED, "properties": {f"p{at}": {"const": at} for at in range(most + 1)}}
    with pytest.raises(LimitExceeded) as caught:
        lower_json_schema(json.dumps({"properties": {"x": wide}}), ANY)
    assert caught.value.limit == "member_sets"
    assert caught.value.place["pointer"] == "/properties/x"
    del wide["properties"]["p0"]
    assert grammar_of(wide).accepts('{"p2":2,"p1":1}')


@pytest.mark.contract("JST-7", "JSO-3")
@pytest.mark.parametrize("options", [JsonOptions(), ANY])
def test_equal_values_of_an_enum_keep_every_order_they_are_listed_in(options: JsonOptions) -> None:
    listed = [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    recogniser = grammar_of({"enum": [*listed, 3]}, options)
    unique = grammar_of({"items": {"enum": listed}, "type": "array", "uniqueItems": True}, options)
    for value in listed:
        spelled = json.dumps(value, separators=(",", ":"))
        assert recogniser.accepts(spelled)
        assert unique.accepts(f"[{spelled}]")
        assert not unique.accepts(f"[{spelled},{spelled}]")
