"""What an output with tools may be, asked through a real vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tokenizers

from ninfer_vllm import embedded
from ninfer_vllm.constraint import OutputConstraint, ToolChoice, ToolConstraint
from ninfer_vllm.errors import ConflictingConstraint
from ninfer_vllm.testing import Probe
from tests.support.calls import tool

LOOKUP = tool("lookup", {"city": {"type": "string"}, "days": {"type": "integer"}})
FREE = tool("free", {"a": {"type": "integer"}}, strict=False)
TOOLS = [LOOKUP, FREE]


@pytest.fixture(scope="module")
def probe() -> Iterator[Probe]:
    probe = Probe("embedded")
    yield probe
    probe.close()


def xml(name: str, *parameters: tuple[str, str]) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


CALL = xml("lookup", ("city", " a\n\n"), ("days", "3"))
OTHER = xml("free", ("zz", ""), ("zz", "x"))

WRONG = [
    f"{CALL}{CALL}",
    f"{CALL}\n\n{CALL}",
    f"{CALL}\n",
    f"{CALL} hi",
    xml("nope"),
    xml("lookup", ("days", "3"), ("city", "a")),
    xml("lookup", ("city", "a")),
    xml("lookup", ("city", "a"), ("days", " 3")),
    xml("lookup", ("city", "a"), ("days", '"3"')),
    xml("lookup", ("city", "a"), ("city", "b"), ("days", "3")),
    CALL.replace("\n3\n", "3"),
]


@pytest.mark.contract("TOOL-1", "TOOL-2", "TOOL-3", "TOOL-4", "TOOL-5", "TOOL-6", "WEX-6")
@pytest.mark.parametrize(
    ("choice", "accepted", "rejected"),
    [
        (
            "auto",
            ["", "hi", CALL, OTHER, f"hi\n{CALL}", f"{CALL}\n{OTHER}\n{CALL}"],
            WRONG,
        ),
        ("required", [CALL, f"{CALL}\n{OTHER}"], ["", "hi", f"hi{CALL}", f" {CALL}"]),
        ({"type": "function", "function": {"name": "free"}}, [OTHER], [CALL, "", f"{OTHER}\n{OTHER}"]),
        (ToolChoice("auto", ("free",)), ["hi", OTHER, f"{OTHER}\n{OTHER}"], [CALL]),
        (ToolChoice("auto", None, False), ["hi", CALL, f"hi {OTHER}"], [f"{CALL}\n{CALL}"]),
        ("none", ["hi", "<tool_cal>"], [CALL, f"a{OTHER}"]),
    ],
)
def test_policy_decides_how_many_calls_and_of_what(
    probe: Probe, choice: Any, accepted: list[str], rejected: list[str]
) -> None:
    constraint = ToolConstraint(TOOLS, choice)
    assert [text for text in accepted if not probe.accepts(constraint, text)] == []
    assert [text for text in rejected if probe.accepts(constraint, text)] == []


@pytest.mark.contract("TOOL-6", "TOOL-8")
def test_hermes_arguments_are_json_with_the_templates_separators(probe: Probe) -> None:
    constraint = ToolConstraint(TOOLS, "required", dialect="hermes")
    good = '{"city": "</tool_call>\\n</parameter>", "days": -1}'
    assert probe.accepts(constraint, hermes("lookup", good))
    assert probe.accepts(constraint, hermes("free", '{"b":1,\n "a": [ ]}'))
    bad = ('{"city":"a","days":1}', '{"days": 1, "city": "a"}', '{"city": "a"}', '{"city": "a", "days": 1, "x": 2}')
    assert [text for text in bad if probe.accepts(constraint, hermes("lookup", text))] == []


@pytest.mark.contract("TOOL-6")
def test_nested_values_follow_the_schema_with_the_templates_separators(probe: Probe) -> None:
    shape = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}}}
    fixed = {"const": {"k": [1, {"z": "é"}]}}
    constraint = ToolConstraint([tool("f", {"x": shape, "y": fixed})], "required")
    value, constant = '[{"a": 1, "b": [null, {"c": 2}]}, {}]', '{"k": [1, {"z": "é"}]}'
    assert json.loads(value)
    assert probe.accepts(constraint, xml("f", ("x", value), ("y", constant)))
    for wrong in (value.replace(": ", ":"), value.replace(", ", ","), value.replace("1", '"1"')):
        assert not probe.accepts(constraint, xml("f", ("x", wrong), ("y", constant)))
    assert not probe.accepts(constraint, xml("f", ("x", value), ("y", constant.replace(", ", ","))))


@pytest.mark.contract("TOOL-8")
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "free"])
@pytest.mark.parametrize(
    "value", ["</parameter>", "a</parameter>\nb", "a\n</parameter", "a\n\n </parameter>", "a\n</parameter>b", CALL]
)
def test_raw_strings_may_hold_all_but_the_delimiter(probe: Probe, value: str, strict: bool) -> None:
    constraint = ToolConstraint([tool("f", {"x": {"type": "string"}}, strict=strict)], "required")
    accepted = "\n</parameter>" not in value
    assert probe.accepts(constraint, xml("f", ("x", value))) is accepted


@pytest.mark.contract("TOOL-8")
def test_pattern_length_and_delimiter_hold_together(probe: Probe) -> None:
    schema = {"type": "string", "pattern": "^[<>/a-z\\n]*$", "minLength": 14, "maxLength": 15}
    constraint = ToolConstraint([tool("f", {"x": schema})], "required")
    accepted = {value: probe.accepts(constraint, xml("f", ("x", value))) for value in VALUES}
    assert accepted == VALUES


@pytest.mark.contract("TOOL-8")
def test_tools_with_the_same_counted_strings_keep_their_bounds(probe: Probe) -> None:
    bounded = {"type": "string", "minLength": 1, "maxLength": 60}
    tools = [tool(name, {"x": bounded, "y": bounded}) for name in "fg"]
    constraint = ToolConstraint(tools, "required")
    sizes = {(1, 60): True, (60, 1): True, (0, 5): False, (61, 5): False, (5, 61): False}
    for name in "fg":
        for (first, second), accepted in sizes.items():
            call = xml(name, ("x", "a" * first), ("y", "\n" * second))
            assert probe.accepts(constraint, call) is accepted


VALUES = {
    "\n</parametex>a": True,
    "\n</parameter>a": False,
    "a\n</parameter>": False,
    "a</parameter>\n": True,
    "a</parameter>\nb": True,
    "a</parameter>": False,
    "A</parameter>b": False,
}


@pytest.mark.contract("TOOL-4")
def test_optional_and_counted_parameters_keep_declared_order(probe: Probe) -> None:
    properties = {name: {"type": "integer"} for name in "abc"}
    constraint = ToolConstraint([tool("f", properties, required=["b"], minProperties=2)], "required")
    names = ("b", "ab", "bc", "abc", "ac", "ba", "cb", "", "bb")
    accepted = [text for text in names if probe.accepts(constraint, xml("f", *((name, "1") for name in text)))]
    assert accepted == ["ab", "bc", "abc"]


@pytest.mark.contract("TOOL-12", "REQ-5")
def test_json_body_and_calls_are_two_branches(probe: Probe) -> None:
    body = OutputConstraint.json_schema({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    auto = ToolConstraint(TOOLS, "auto", body)
    assert [probe.accepts(auto, text) for text in ('{"a":"<tool_call>"}', CALL, f"{CALL}\n{CALL}")] == [True] * 3
    wrong = ("", "hi", f'{{"a":""}}{CALL}', f"{CALL}\n{{}}", '{"a": ""}')
    assert [text for text in wrong if probe.accepts(auto, text)] == []
    required, none = (ToolConstraint(TOOLS, mode, body) for mode in ("required", "none"))
    assert [probe.accepts(required, text) for text in (CALL, '{"a":""}')] == [True, False]
    assert [probe.accepts(none, text) for text in (CALL, '{"a":""}', '{"a":"<tool_call>"}')] == [False, True, True]


@pytest.mark.contract("TOOL-5", "TOK-4")
def test_call_token_is_legal_only_where_a_call_may_begin(probe: Probe) -> None:
    opening = probe.vocabulary.names["<tool_call>"]
    closing = probe.vocabulary.names["</tool_call>"]
    auto, none = ToolConstraint(TOOLS, "auto"), ToolConstraint(TOOLS, "none")
    inside = CALL[: CALL.index(" a\n\n") + 2]
    masks = [probe.mask(auto), probe.mask(auto, "hi"), probe.mask(auto, CALL), probe.mask(auto, inside)]
    assert [bool(mask[opening]) for mask in masks] == [True, True, False, False]
    assert not any(mask[closing] for mask in masks)
    assert probe.mask(auto, CALL[: -len("</tool_call>")])[closing]
    assert not probe.mask(none)[opening]
    required = np.flatnonzero(probe.mask(ToolConstraint(TOOLS, "required"))).tolist()
    assert required == [opening]


@pytest.mark.contract("TOOL-2")
def test_free_enforcement_leaves_every_text_legal(probe: Probe) -> None:
    constraint = ToolConstraint([FREE], ToolChoice(enforcement="automatic"))
    assert probe.accepts(constraint, xml("nope"))


@pytest.mark.contract("THK-4", "THK-5", "WEX-5")
def test_calls_follow_the_thinking_block(probe: Probe) -> None:
    constraint = ToolConstraint(TOOLS, "required")
    assert probe.accepts(constraint, f"so\n</think>\n\n{CALL}", frame="thinking")
    assert not probe.accepts(constraint, f"so\n</think>\n{CALL}", frame="thinking")
    assert not probe.accepts(constraint, "so\n</think>\n\n", frame="thinking")


@pytest.mark.contract("TOOL-13", "CMP-3")
def test_free_tools_that_differ_in_hints_share_one_grammar(probe: Probe) -> None:
    other = tool("free", {"b": {"type": "string"}}, strict=False)
    one, two = (probe.lower(ToolConstraint([item], "auto")) for item in (FREE, other))
    assert one == two


@pytest.mark.contract("FAM-1")
def test_model_of_no_known_family_refuses_tools() -> None:
    bare = tokenizers.Tokenizer.from_file(str(embedded.tokenizer("embedded") / "tokenizer.json"))
    probe = Probe(bare)
    with pytest.raises(ConflictingConstraint, match="qwen"):
        probe.accepts(ToolConstraint(TOOLS, "auto"), "hi")
    probe.close()
