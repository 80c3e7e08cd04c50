"""Values through the model's own chat template, the grammar and the parser: what comes back is what went in.

The templates' `tojson` and the frame they write around calls are the authority for the wire text.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from ninfer_vllm.constraint import ToolConstraint
from ninfer_vllm.testing import Probe
from tests.support.calls import as_bytes, contract_of, in_tokens, parse, tool

Values = tuple[dict[str, Any], Any]
"""A schema and a value that it admits."""

TEXTS = (
    "",
    " ",
    "a",
    "\n",
    " x\n\n",
    "é😀",
    '"q"',
    "\\",
    "\t",
    "\x01",
    "</parameter>",
    "a\n</para",
    "null",
    "12",
    "{}",
)
CHARACTERS = 'ab \n\t<>/"\\é海😀_{}[]:,01'
COUNT = 40


def text(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return rng.choice(TEXTS)
    return "".join(rng.choice(CHARACTERS) for _ in range(rng.randint(0, 12)))


def scalar(rng: random.Random) -> Values:
    kind = rng.choice(("string", "integer", "number", "boolean", "null", "bounded", "counted", "enum", "const"))
    if kind in ("string", "counted"):
        value = text(rng)
        counted = {"minLength": max(len(value) - 2, 0), "maxLength": len(value) + 1} if kind == "counted" else {}
        return {"type": "string", **counted}, value
    if kind == "integer":
        return {"type": "integer"}, rng.choice((0, -1, 2**63 - 1, -(2**63), rng.randint(-(10**6), 10**6)))
    if kind == "number":
        return {"type": "number"}, rng.choice((0.5, -1.25, 1e300, 5e-324, 3, 1e16, rng.uniform(-1e6, 1e6)))
    if kind == "bounded":
        value = rng.randint(-50, 50)
        return {"type": "integer", "minimum": value - 3, "maximum": value}, value
    if kind == "boolean":
        return {"type": "boolean"}, rng.random() < 0.5
    if kind == "null":
        return {"type": ["null", "integer"]}, None
    constants = [text(rng), rng.randint(0, 9), {"k": [1, None, {"z": "é"}]}, [True, "a"]]
    value = rng.choice(constants)
    return ({"const": value}, value) if kind == "const" else ({"enum": [constants[2], value, constants[3]]}, value)


def nested(rng: random.Random, depth: int) -> Values:
    kind = rng.choice(("scalar", "array", "object", "open")) if depth else "scalar"
    if kind == "array":
        schema, value = nested(rng, depth - 1)
        return {"type": "array", "items": schema, "maxItems": 3}, [value] * rng.randint(0, 3)
    if kind == "object":
        members = {key: nested(rng, depth - 1) for key in rng.sample(("a", "b c", 'q"', "é"), rng.randint(0, 3))}
        schema = {"type": "object", "properties": {key: schema for key, (schema, _) in members.items()}}
        return schema, {key: value for key, (_, value) in members.items()}
    if kind == "open":
        return {"type": "object"}, {"x": [text(rng), {"y": None}], "z": 1.5}
    return scalar(rng)


def wire(probe: Probe, name: str, arguments: dict[str, Any]) -> str:
    """The assistant's turn as the tokenizer's own template writes it."""
    tokenizer = probe.tokenizer
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    rendered = tokenizer.apply_chat_template(turns, tokenize=False)
    return str(rendered[rendered.index("<tool_call>") : rendered.rindex("<|im_end|>")])


@pytest.fixture(scope="module", params=["xml", "hermes"])
def probe(request: pytest.FixtureRequest) -> Any:
    probe = Probe({"xml": "embedded", "hermes": "embedded-qwen"}[request.param])
    yield probe
    probe.close()


@pytest.mark.contract("TOOL-4", "TOOL-6", "TOOL-8")
def test_random_values_come_back_from_the_templates_own_text(probe: Probe) -> None:
    dialect = probe.dialect
    assert dialect is not None
    refused = 0
    for seed in range(COUNT):
        rng = random.Random(seed)
        members = {key: nested(rng, 2) for key in rng.sample(("city", "n", "deep", "über", "a-b"), rng.randint(1, 3))}
        arguments = {key: value for key, (_, value) in members.items()}
        tools = [tool("look.up-1", {key: schema for key, (schema, _) in members.items()})]
        written = wire(probe, "look.up-1", arguments)
        try:
            accepted = probe.accepts(ToolConstraint(tools, "required"), written)
        except ValueError:
            refused += 1
            continue
        assert accepted, written
        contract = contract_of(tools, "required", dialect)
        assert parse(contract, in_tokens_of(written)).arguments == [arguments]
        free = contract_of([tool("look.up-1", {}, strict=False)], "required", dialect)
        assert len(parse(free, in_tokens_of(written)).calls) == 1
    assert refused < COUNT / 2


def in_tokens_of(written: str) -> list[int]:
    """The call's markers as tokens at its two ends, all between them as text."""
    inner = written.removeprefix("<tool_call>").removesuffix("</tool_call>")
    opened, closed = in_tokens("<tool_call>"), in_tokens("</tool_call>")
    return [*opened, *as_bytes(inner), *closed]
