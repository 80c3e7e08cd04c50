"""Hostile schemas end in a typed error or a grammar, soon, and without deep stacks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ninfer_vllm.constraint import JsonOptions, OutputConstraint
from ninfer_vllm.errors import ConstraintError, LimitExceeded
from ninfer_vllm.languages.json_schema import lower_json_schema
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.limits import NESTING_DEPTH
from tests.support.effort import cpu_within
from tests.support.oracles.recogniser import Recogniser

MAX_SECONDS = 40.0


def nested(levels: int, keyword: str) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(levels):
        schema = {keyword: [schema] if keyword in ("allOf", "anyOf", "oneOf", "prefixItems") else schema}
    return schema


def chain(length: int) -> Any:
    links = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "null"}}}


def deep_value(levels: int) -> Any:
    value: Any = 1
    for at in range(levels):
        value = [value] if at % 2 else {"a": value}
    return value


def wide_choice(size: int, keyword: str) -> Any:
    return {"allOf": [{keyword: [{"maxLength": at * size + other} for other in range(size)]} for at in range(3)]}


def doubling(levels: int) -> Any:
    definitions = {
        f"d{at}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/d{at + 1}"} for name in "lr"}}
        for at in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "null"}}}


def nested_exclusive(levels: int) -> Any:
    schema: Any = {"type": "object", "required": ["x"]}
    for at in range(levels):
        schema = {"oneOf": [schema, {"required": [f"p{at}"]}]}
    return schema


def many_patterns(size: int) -> Any:
    return {"patternProperties": {f"^.*{chr(97 + at % 26)}{at}": {"minimum": at} for at in range(size)}}


def closed_choice(size: int) -> Any:
    members = [{"properties": {f"p{at}": {"type": "null"}}} for at in range(size)]
    return {"anyOf": members, "unevaluatedProperties": False}


ACCEPTED = {
    "items in items": nested(120, "items"),
    "anyOf in anyOf": nested(120, "anyOf"),
    "a chain of references": chain(200),
    "two references a level": doubling(40),
    "a deep constant": {"const": deep_value(250)},
    "a filtered deep constant": {
        "enum": [deep_value(200)],
        "$ref": "#/$defs/a",
        "$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/b"}}}, "b": {"items": {"$ref": "#/$defs/a"}}},
    },
    "many values": {"enum": [f"value {at}" for at in range(20_000)]},
    "many properties": {"properties": {f"property{at}": {"type": "integer", "minimum": at} for at in range(300)}},
    "many positions": {"prefixItems": [{"type": "null"}] * 20_000, "minItems": 20_000, "type": "array"},
    "many optional positions": {"prefixItems": [{"type": "null"}] * 5_000, "type": "array"},
    "a long count": {"type": "array", "items": {"type": "null"}, "minItems": 2**31 - 1},
}
REFUSED = {
    "a long chain of references": chain(300),
    "a choice of choices": wide_choice(60, "anyOf"),
    "oneOf in oneOf": nested_exclusive(14),
    "many overlapping patterns": many_patterns(60),
    "many long texts": {
        "properties": {f"p{at}": {"format": "uri", "maxLength": 8_000 - at} for at in range(30)},
    },
    "a closed choice of many": closed_choice(25),
    "pairs of very many": {"not": {"oneOf": [{"minLength": at} for at in range(4_000)]}},
    "many ways to be present": {
        "properties": {f"p{at}": {} for at in range(300)},
        "allOf": [{"not": {"additionalProperties": {"const": at}}} for at in range(4)],
    },
    "very many unknown keywords": {f"keyword{at}": at for at in range(20_000)},
    "a oneOf of very many": {"oneOf": [{"type": "object", "required": [f"p{at}"]} for at in range(400)]},
}
TEXTS = {
    "a number of a million digits": '{"minimum": 0.' + "1" * 10**6 + "}",
    "a count of a million digits": '{"minLength": ' + "1" * 10**6 + "}",
    "an exponent without measure": '{"maximum": 1e' + "9" * 1000 + "}",
    "a small exponent without measure": '{"maximum": 1e-' + "9" * 1000 + "}",
    "deep nesting": '{"items":' * 5_000,
    "a deep constant": '{"const":' + "[" * 400 + "]" * 400 + "}",
}


@pytest.mark.contract("SEC-2", "JSC-5")
@pytest.mark.parametrize("name", ACCEPTED)
def test_large_schema_is_lowered(name: str) -> None:
    with cpu_within(MAX_SECONDS):
        lower_json_schema(json.dumps(ACCEPTED[name]), JsonOptions())
        lower_json_schema(json.dumps(ACCEPTED[name]), JsonOptions(whitespace="flexible"))


@pytest.mark.contract("SEC-2", "JSC-5", "JSD-9")
@pytest.mark.parametrize("name", [*REFUSED, *TEXTS])
def test_hostile_schema_is_refused(name: str) -> None:
    with cpu_within(MAX_SECONDS):
        with pytest.raises(ConstraintError) as caught:
            lower_json_schema(json.dumps(REFUSED[name]) if name in REFUSED else TEXTS[name], JsonOptions())
        assert caught.value.place


@pytest.mark.contract("JSC-5", "SEC-2", "JSD-9")
@pytest.mark.parametrize("levels", [NESTING_DEPTH, 5_000])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_schema_nested_too_deep_is_refused_at_the_first_value_that_is(levels: int, as_text: bool) -> None:
    # Text and values: the latter are more than Python's own encoder takes.
    schema: object = {}
    for _ in range(levels):
        schema = {"a/b": [], "not": schema}
    text = '{"a/b":[],"not":' * levels + "{}" + "}" * levels
    with pytest.raises(LimitExceeded) as caught:
        lower(OutputConstraint.json_schema(text if as_text else schema))
    expected = "/not" * (NESTING_DEPTH - 1) + "/a~1b"
    assert (caught.value.limit, caught.value.pointer) == ("nesting_depth", expected)


@pytest.mark.contract("CMP-9", "JSC-5")
def test_refusal_for_too_much_work_does_not_depend_on_what_was_prepared_before() -> None:
    text = json.dumps(REFUSED["many overlapping patterns"])
    refusals = []
    for _ in range(2):
        with pytest.raises(LimitExceeded) as caught:
            lower_json_schema(text, JsonOptions())
        refusals.append(caught.value)
    assert refusals[0] == refusals[1]
    assert refusals[0].pointer is not None


@pytest.mark.contract("CMP-9", "JSC-2")
def test_nested_one_of_is_decided_in_bounded_work() -> None:
    """Reported as a bomb at depth 14 (ht-021): the branches are two at each level."""
    schema: dict[str, object] = {"type": "integer"}
    for _ in range(14):
        schema = {"oneOf": [{"type": "object", "properties": {"a": schema}, "required": ["a"]}, {"type": "null"}]}
    with cpu_within(30):
        recogniser = Recogniser(lower_json_schema(json.dumps(schema), JsonOptions()))
    assert recogniser.accepts('{"a":{"a":null}}')
    assert not recogniser.accepts('{"a":{"a":1}}')


@pytest.mark.contract("JSO-3")
def test_texts_are_compact_without_being_asked_for() -> None:
    """What a back end of the host refuses to start with (ht-032)."""
    recogniser = Recogniser(lower_json_schema('{"const":{"a":[1,2]}}', JsonOptions()))
    assert recogniser.accepts('{"a":[1,2]}')
    assert not recogniser.accepts('{"a": [1, 2]}')
