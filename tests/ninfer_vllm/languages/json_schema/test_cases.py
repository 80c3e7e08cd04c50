"""Every case of the JSON Schema data: what is accepted and rejected, refusals at their place, schemas that agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validators

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.support.oracles.recogniser import Recogniser

pytestmark = pytest.mark.contract(
    "JSC-1",
    "JSC-2",
    "JSC-3",
    "JSC-4",
    "JSC-5",
    "JSC-6",
    "JSD-1",
    "JSD-2",
    "JSD-3",
    "JSD-4",
    "JSD-5",
    "JSD-6",
    "JSD-7",
    "JSD-8",
    "JSD-9",
    "JSD-10",
    "JSO-2",
    "JSO-3",
    "JSO-4",
    "JSO-5",
    "JSO-6",
    "JST-1",
    "JST-2",
    "JST-3",
    "JST-4",
    "JST-5",
    "JST-6",
    "JST-7",
    "JST-8",
    "JST-9",
    "JSX-1",
    "JSX-11",
    "JSX-2",
    "JSX-3",
    "JSX-4",
    "JSX-5",
    "JSX-6",
    "JSX-7",
    "JSX-8",
    "JSX-9",
    "RGX-6",
    "RGX-7",
)

FOLDER = Path(__file__).resolve().parents[3] / "data" / "json_schema"


def cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            found.append(pytest.param(case, id=f"{path.stem}: {case['description']}"))
    return found


@pytest.mark.parametrize("case", [case for case in cases() if "error" not in case.values[0]])
def test_case_accepts_and_rejects(case: dict[str, Any]) -> None:
    for constraint in constraints(case):
        recogniser = Recogniser(lowered(constraint))
        assert [text for text in case["accepts"] if not recogniser.accepts(text)] == []
        assert [text for text in case["rejects"] if recogniser.accepts(text)] == []


@pytest.mark.parametrize("case", [case for case in cases() if "error" not in case.values[0]])
def test_case_accepts_what_a_validator_accepts(case: dict[str, Any]) -> None:
    for constraint in constraints(case):
        validator = validators.validator_for(json.loads(constraint), default=validators.Draft202012Validator)
        if json.loads(constraint) != {"anyOf": [{"$ref": "#"}, {"type": "null"}]}:  # the validator recurs without end
            for text in case["accepts"]:
                assert validator(json.loads(constraint)).is_valid(json.loads(text)), text


@pytest.mark.parametrize("case", [case for case in cases() if "constraints" in case.values[0]])
def test_schemas_that_mean_the_same_lower_alike(case: dict[str, Any]) -> None:
    first, *others = (lowered(constraint) for constraint in constraints(case))
    assert all(sorted(map(str, other.rules.values())) == sorted(map(str, first.rules.values())) for other in others)


@pytest.mark.parametrize("case", [case for case in cases() if "error" in case.values[0]])
def test_case_is_refused_at_its_place(case: dict[str, Any]) -> None:
    (constraint,) = constraints(case)
    with pytest.raises(ConstraintError) as caught:
        lowered(constraint)
    error = case["error"]
    assert (caught.value.code, caught.value.place.get("pointer")) == (error["code"], error["pointer"])
    assert error.get("message", "") in str(caught.value)


def test_clauses_of_the_data_are_the_marked_ones() -> None:
    named = {clause for case in cases() for clause in case.values[0]["clauses"]}
    assert named == set(pytestmark.args)


def constraints(case: dict[str, Any]) -> list[str]:
    if "text" in case:
        return [case["text"]]
    schemas = case["constraints"] if "constraints" in case else [case["constraint"]]
    return [json.dumps(schema, ensure_ascii=False) for schema in schemas]


def lowered(constraint: str) -> Grammar:
    return lower_json_schema(constraint, JsonOptions())
