"""The open cases: decided as they say, by value where their spelling is not canonical, or refused at their place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError, InvalidRegex, LimitExceeded, MalformedSchemaText, UnsupportedSchema
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.support.cases import open_cases
from tests.support.oracles.json_texts import spellings
from tests.support.oracles.recogniser import Recogniser


@pytest.mark.contract("JSD-8", "GEN-6", "JST-8")
@pytest.mark.parametrize("case", open_cases("json_schema"))
def test_open_case(case: dict[str, Any]) -> None:
    schema = case["constraint"]["schema"]
    try:
        grammar = lower_json_schema(schema if isinstance(schema, str) else json.dumps(schema), JsonOptions())
    except ConstraintError as error:
        _check_refusal(case, error)
        return
    assert case["expect_error"] is None
    recogniser = Recogniser(grammar)
    for text in case["accept"]:
        texts = (text, *spellings(json.loads(text), schema))
        assert any(recogniser.accepts(spelling) for spelling in texts), text
    assert [text for text in case["reject"] if recogniser.accepts(text)] == []


def _check_refusal(case: dict[str, Any], error: ConstraintError) -> None:
    if case["expect_error"] is None:
        # What is not supported yet may be refused; nothing else may.
        assert isinstance(error, UnsupportedSchema | LimitExceeded | InvalidRegex), str(error)
    elif isinstance(error, MalformedSchemaText):
        assert case["expect_error"]["where"] == f"offset {error.column - 1}"
    else:
        assert str(error.place["pointer"]).startswith(case["expect_error"]["where"])
