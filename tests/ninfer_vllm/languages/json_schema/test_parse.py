"""Problems are all reported, in reading order, and only where the root reaches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import UnsupportedSchema
from ninfer_vllm.languages.json_schema import lower_json_object, lower_json_schema, problems
from tests.support.effort import cpu_within
from tests.support.oracles.recogniser import Recogniser


def pointers(schema: Any, options: JsonOptions | None = None) -> list[Any]:
    return [problem.place.get("pointer") for problem in problems(json.dumps(schema), options or JsonOptions())]


@pytest.mark.contract("JSD-8")
def test_every_problem_is_reported_in_reading_order() -> None:
    schema = {
        "properties": {
            "a": {"format": "phone", "type": "strnig"},
            "b": {"items": {"$ref": "#/$defs/c"}},
            "d": {"maxLenght": 3},
        },
        "not": {"pattern": "(?=a)"},
        "$defs": {"c": {"multipleOf": 0}, "unused": {"contains": 5}},
    }
    assert pointers(schema) == [
        "/properties/a/format",
        "/properties/a/type",
        "/$defs/c/multipleOf",
        "/properties/d/maxLenght",
        "/not/pattern",
    ]


def test_problem_of_the_reduction_is_reported_alone() -> None:
    assert pointers({"type": "string", "minLength": 2, "maxLength": 1}) == [""]
    assert pointers({"type": "string"}) == []
    assert problems("{", JsonOptions())[0].place == {"line": 1, "column": 2}


def test_first_problem_is_the_one_raised() -> None:
    schema = json.dumps({"format": "phone", "$anchor": "a"})
    with pytest.raises(UnsupportedSchema) as caught:
        lower_json_schema(schema, JsonOptions())
    assert caught.value == problems(schema, JsonOptions())[0]


@pytest.mark.contract("JSD-7")
def test_unknown_keywords_may_be_annotations() -> None:
    options = JsonOptions(unknown_keywords="annotation")
    schema = {"type": "array", "frobnicate": 1, "minItem": 3, "format": "phone"}
    assert pointers(schema, options) == []
    assert pointers(schema) == ["/frobnicate", "/minItem", "/format"]
    assert Recogniser(lower_json_schema(json.dumps(schema), options)).accepts("[]")
    assert pointers({"format": "regex", "$anchor": "a"}, options) == ["/format", "/$anchor"]


def test_definitions_that_nothing_refers_to_are_not_read() -> None:
    assert pointers({"$defs": {"a": {"pattern": "("}}, "definitions": {"b": 5}, "type": "null"}) == []
    assert pointers({"$defs": 5}) == ["/$defs"]


@pytest.mark.contract("JSO-1")
def test_json_object_has_objects_only() -> None:
    recogniser = Recogniser(lower_json_object(JsonOptions()))
    for text in ("{}", '{"a":1,"a":[{"b":null}],"":""}'):
        assert recogniser.accepts(text)
    for text in ("[]", "1", '"{}"', "null", "", '{"a":}', "{a:1}", ' {"a":1}', '{"a":1}{}'):
        assert not recogniser.accepts(text)


@pytest.mark.contract("JSC-6", "JSD-8")
def test_a_required_name_that_nothing_allows_is_told_by_name() -> None:
    (problem,) = problems('{"type":"object","required":["z"],"additionalProperties":false}', JsonOptions())
    assert problem.place == {"pointer": "/additionalProperties"}
    assert "'z'" in str(problem)
    assert "required" in str(problem)


@pytest.mark.contract("JSX-6", "SEC-2")
def test_a_divisor_of_too_many_states_is_refused_at_once() -> None:
    with cpu_within(0.5):
        (problem,) = problems('{"properties":{"a":{"type":"integer","multipleOf":9973}}}', JsonOptions())
    assert problem.place == {"pointer": "/properties/a/multipleOf", "limit": "multiple_states"}
