"""Random legal outputs of every dialect, policy and strictness: all calls are valid, and cuts change nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ninfer_vllm.constraint import Dialect, OutputConstraint, ToolChoice
from tests.support.calls import CLOSE, call_vocabulary, compiled, contract_of, in_bytes, parse, tool, walk

PARAMETERS: dict[str, dict[str, Any]] = {
    "lookup": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 0, "maximum": 31}},
    "paint": {
        "colour": {"enum": ["red", " blue ", "é\n"]},
        "size": {"type": ["integer", "null"]},
        "note": {"type": "string", "minLength": 2, "maxLength": 6},
        "code": {"type": "string", "pattern": "^[a-z/<>\\n]+$"},
    },
    "nest": {
        "shape": {
            "type": "object",
            "properties": {"w": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["w"],
            "additionalProperties": False,
        },
        "fixed": {"const": {"a": [1, None], "b": "x"}},
        "mixed": {"enum": ["yes", 1, None]},
    },
    "ping": {},
}
REQUIRED = {"nest": ["shape"], "paint": ["code"]}
CUT_EVERY = 5
"""Of so many outputs one is cut at every token and at every byte."""
POLICIES: dict[str, Any] = {
    "auto": "auto",
    "required": "required",
    "named": ToolChoice.named("paint"),
    "allowed": ToolChoice("required", ("nest", "ping")),
    "one": ToolChoice("auto", None, False),
    "none": "none",
}


def declared(*, strict: bool) -> list[dict[str, Any]]:
    return [
        tool(name, properties, strict=strict, required=REQUIRED.get(name, list(properties)))
        for name, properties in PARAMETERS.items()
    ]


def run(dialect: Dialect, policy: str, *, strict: bool, count: int) -> None:
    tools = declared(strict=strict)
    choice = ToolChoice.of(POLICIES[policy])
    contract = contract_of(tools, choice, dialect)
    grammar = compiled(contract)
    validators = {item["function"]["name"]: Draft202012Validator(item["function"]["parameters"]) for item in tools}
    rng = random.Random(f"{dialect} {policy} {strict}")
    num_calls = 0
    for at in range(count):
        tokens = walk(grammar, rng)
        whole = parse(contract, tokens)
        num_calls += len(whole.calls)
        assert len(whole.calls) == tokens.count(CLOSE)
        for (name, _), arguments in zip(whole.calls, whole.arguments, strict=True):
            assert choice.allowed_names is None or name in choice.allowed_names
            if strict:
                validators[name].validate(arguments)
                assert list(arguments) == [key for key in PARAMETERS[name] if key in arguments]
        assert choice.parallel or len(whole.calls) <= 1
        assert choice.mode != "required" or (whole.calls and not whole.content)
        assert parse(contract, tokens, range) == whole
        assert parse(contract, in_bytes(tokens), range) == whole
        if at % CUT_EVERY == 0:
            check_prefixes(contract, tokens)
            check_prefixes(contract, in_bytes(tokens))
    assert num_calls > 0 or policy == "none"


def check_prefixes(contract: Any, tokens: list[int]) -> None:
    """Cut at one place the output is the same; ended there, it is the calls that were complete."""
    whole = parse(contract, tokens)
    for at in range(len(tokens)):
        assert parse(contract, tokens, lambda _, at=at: [at]) == whole  # type: ignore[misc]
        cut = parse(contract, tokens[:at], reason="length")
        assert cut.calls == whole.calls[: tokens[:at].count(CLOSE)]
        assert whole.content.startswith(cut.content.rstrip("�"))


@pytest.mark.contract("TOOL-4", "TOOL-5", "TOOL-10", "TOOL-13")
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "free"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dialect", ["xml", "hermes"])
def test_random_outputs_parse_to_valid_calls_wherever_they_are_cut(dialect: Dialect, policy: str, strict: bool) -> None:
    run(dialect, policy, strict=strict, count=25)


@pytest.mark.slow
@pytest.mark.contract("TOOL-4", "TOOL-5", "TOOL-10", "TOOL-13")
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "free"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dialect", ["xml", "hermes"])
def test_five_hundred_random_outputs_parse_to_valid_calls(dialect: Dialect, policy: str, strict: bool) -> None:
    run(dialect, policy, strict=strict, count=500)


@pytest.mark.contract("TOOL-12")
@pytest.mark.parametrize("dialect", ["xml", "hermes"])
def test_random_outputs_are_the_json_body_or_calls_never_both(dialect: Dialect) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    contract = contract_of(declared(strict=True), "auto", dialect, body=OutputConstraint.json_schema(schema))
    grammar = compiled(contract)
    rng = random.Random(3)
    seen = set()
    for _ in range(40):
        result = parse(contract, walk(grammar, rng))
        assert bool(result.content) != bool(result.calls)
        seen.add(bool(result.calls))
    assert seen == {True, False}


def test_vocabulary_of_the_walks_has_more_than_single_bytes() -> None:
    assert max(map(len, call_vocabulary().spellings)) > 10
