"""Calls out of tokens: exact where the output was constrained, kind where it was free, never taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ninfer_vllm.constraint import ToolChoice
from ninfer_vllm.errors import UnreadableToolCall
from ninfer_vllm.host.events import ContentDelta
from qwen_frontend.tools.parser import CallParser
from tests.support.calls import IDS, OPEN, Read, as_bytes, contract_of, in_tokens, parse, spelling_of, tool

FREE = ToolChoice(enforcement="automatic")


def xml(name: str, *parameters: tuple[str, str]) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def reading(tools: Any, text: str, choice: Any = "auto", dialect: Any = "xml", reason: str = "stop") -> Read:
    contract = contract_of(tools, choice, dialect)
    whole = parse(contract, in_tokens(text), reason=reason)
    assert parse(contract, in_tokens(text), range, reason) == whole
    return whole


NESTED = "<parameter=path>z</parameter>\n</parameter_> </parameter>"


@pytest.mark.contract("TOOL-6", "TOOL-8")
@pytest.mark.parametrize(
    "value", ["", " ", "\n", "\n\n", "  x\n  y\n\n", NESTED, "</parameter>", "\n</para", "<tool_call>", '"q"', "é海😀"]
)
def test_raw_strings_lose_just_the_two_line_breaks(value: str) -> None:
    tools = [tool("write", {"path": {"type": "string"}, "content": {"type": "string"}})]
    contract = contract_of(tools)
    text = xml("write", ("path", "p"), ("content", value))
    opened, _, inner = text.partition("<tool_call>")
    inner = inner.removesuffix("</tool_call>")
    tokens = [*in_tokens(opened), OPEN, *as_bytes(inner), IDS[1]]
    assert parse(contract, tokens).arguments == [{"path": "p", "content": value}]
    assert parse(contract, tokens, range) == parse(contract, tokens)


@pytest.mark.contract("TOOL-3")
def test_repeated_parameter_keeps_the_place_of_the_first_and_the_value_of_the_last() -> None:
    tools = [tool("f", {}, strict=False)]
    assert reading(tools, xml("f", ("a", "1"), ("b", "2"), ("a", "3"))).calls == [("f", '{"a": "3", "b": "2"}')]
    text = hermes("f", '{"a": 1, "b": {"a": 5, "a": 6}, "a": [1,2]}')
    assert reading(tools, text, dialect="hermes").calls == [("f", '{"a": [1,2], "b": {"a": 5, "a": 6}}')]


@pytest.mark.contract("TOOL-3")
@pytest.mark.parametrize(
    ("schema", "value", "published"),
    [
        ({"type": "integer"}, "12345678901234567890", "12345678901234567890"),
        ({"type": "number"}, "9007199254740993", "9007199254740993"),
        ({"type": "number"}, "1.50", "1.50"),
        ({"type": "integer"}, "1_000", '"1_000"'),
        ({"type": "integer"}, "٣", '"٣"'),
        ({"type": "integer"}, "0x10", '"0x10"'),
        ({"type": "number"}, "NaN", '"NaN"'),
        ({"type": "boolean"}, " true ", "true"),
        ({"type": "boolean"}, "True", '"True"'),
        ({"type": "string"}, "5", '"5"'),
        ({"type": "object"}, '{"a":1, "a":2}', '{"a":1, "a":2}'),
        ({"type": "object"}, "{", '"{"'),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": ["string", "null"]}, "5", '"5"'),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "7", "7"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "seven", '"seven"'),
        ({"$ref": "#/$defs/n"}, "7", "7"),
        ({"enum": [1, 2]}, "1", "1"),
        ({"const": "1"}, "1", '"1"'),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": "string"}]}, "1", '"1"'),
        ({"description": "anything"}, "1", "1"),
        ({"type": "array"}, "[" * 3_000, json.dumps("[" * 3_000)),
    ],
)
def test_hints_decide_what_a_free_value_is(schema: Any, value: str, published: str) -> None:
    tools = [tool("f", {"x": schema}, strict=False, **{"$defs": {"n": {"type": "integer"}}})]
    assert reading(tools, xml("f", ("x", value))).calls == [("f", f'{{"x": {published}}}')]


@pytest.mark.contract("TOOL-3")
def test_undeclared_parameters_are_strings_unless_the_schema_types_them() -> None:
    assert reading([tool("f", {}, strict=False)], xml("f", ("x", "1"))).arguments == [{"x": "1"}]
    typed = tool("f", {}, strict=False, additionalProperties={"type": "integer"})
    assert reading([typed], xml("f", ("x", "1"))).arguments == [{"x": 1}]


@pytest.mark.contract("TOOL-7")
def test_strict_union_is_read_by_the_texts_of_its_strings() -> None:
    tools = [tool("f", {"x": {"enum": ["one", 1, None]}})]
    values = [reading(tools, xml("f", ("x", value))).arguments[0]["x"] for value in ("one", "1", "null")]
    assert values == ["one", 1, None]


@pytest.mark.contract("TOOL-10")
@pytest.mark.parametrize("choice", ["auto", FREE])
@pytest.mark.parametrize("dialect", ["xml", "hermes"])
def test_cut_call_publishes_nothing_and_finished_ones_stay(choice: Any, dialect: Any) -> None:
    tools = [tool("f", {"a": {"type": "string"}}, strict=False)]
    first = xml("f", ("a", "x")) if dialect == "xml" else hermes("f", '{"a": "x"}')
    for length in range(len("<tool_call>"), len(first)):
        cut = first[:length]
        found = reading(tools, f"{first}\n{cut}", choice, dialect, "length")
        assert found.arguments == [{"a": "x"}]
        assert found.content == ""


@pytest.mark.contract("TOOL-11")
@pytest.mark.parametrize("text", [xml("g"), xml("f")[:-13] + "</tool_call>", "<tool_call></tool_call>", xml("f") + "x"])
def test_constrained_call_that_cannot_be_read_fails_loudly(text: str) -> None:
    with pytest.raises(UnreadableToolCall):
        reading([tool("f", {}, strict=False)], text)


@pytest.mark.contract("TOOL-11")
@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("xml", "I would use <tool_call> for that."),
        ("xml", "Write <function=f> to call."),
        ("xml", xml("unknown")),
        ("xml", "a <tool_call>\n<function=f>\n<parameter=a>\nno end</function>\n</tool_call> b"),
        ("xml", "<tool_call>\n<function=f>\n and then the model stops"),
        ("xml", "<tool_call>\n<tool_call>\n<function=f>\nx</tool_call>"),
        ("hermes", "see <tool_call> and </tool_call>"),
        ("hermes", hermes("unknown", "{}")),
        ("hermes", hermes("f", "{,}")),
        ("hermes", hermes("f", "[]")),
        ("hermes", hermes("f", "NaN")),
    ],
)
def test_free_text_that_is_no_call_stays_content(dialect: Any, text: str) -> None:
    found = reading([tool("f", {}, strict=False)], text, FREE, dialect)
    assert (found.content, found.calls) == (text, [])


@pytest.mark.contract("TOOL-11")
@pytest.mark.parametrize(
    ("dialect", "text", "arguments"),
    [
        ("xml", "<tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</tool_call>", {"a": "x"}),
        ("xml", "<tool_call><function=f><parameter=a>\n x\n\n</parameter></function></tool_call>", {"a": " x\n"}),
        ("xml", "<tool_call>\n<function=f>\n<parameter=a>\n</parameter>\n</function>\n</tool_call>", {"a": ""}),
        ("hermes", '<tool_call>{"arguments": {"a":"</tool_call"}, "name":"f"}</tool_call>', {"a": "</tool_call"}),
        ("hermes", '<tool_call>\n{"name": "f", "arguments": "{\\"a\\": 1}"}\n</tool_call>', {"a": 1}),
        ("hermes", '<tool_call>\n{"name": "f"}\n</tool_call>', {}),
    ],
)
def test_free_calls_are_read_kindly(dialect: Any, text: str, arguments: Any) -> None:
    found = reading([tool("f", {}, strict=False)], f"ok {text}\n\n{text} \n", FREE, dialect)
    assert (found.content, found.arguments) == ("ok ", [arguments, arguments])


def test_text_behind_a_free_call_is_content_with_its_white_space() -> None:
    found = reading([tool("f", {}, strict=False)], f"a\n{xml('f')}\n b {xml('f')} ", FREE)
    assert (found.content, len(found.calls)) == ("a\n\n b", 2)


@pytest.mark.contract("TOK-4", "TOOL-8")
def test_only_the_control_tokens_are_markers() -> None:
    contract = contract_of([tool("f", {"a": {"type": "string"}})], FREE)
    spelled = as_bytes(xml("f", ("a", "x")))
    assert parse(contract, spelled).calls == []
    value = [*in_tokens("<tool_call>\n<function=f>\n<parameter=a>\n"), *as_bytes("</tool_call>")]
    assert parse(contract, [*value, *in_tokens("\n</parameter>\n</function>\n</tool_call>")]).arguments == [
        {"a": "</tool_call>"}
    ]


@pytest.mark.contract("END-4")
def test_characters_are_published_whole_and_a_cut_one_as_the_host_shows_it() -> None:
    parser = CallParser(None, IDS, spelling_of)
    smile = as_bytes("😀")
    assert parser.feed(smile[:3]) == []
    assert parser.feed(smile[3:]) == [ContentDelta("😀")]
    assert parser.feed(smile[:3]) == []
    assert parser.finish("length") == [ContentDelta("�")]


def test_without_tools_markers_are_content() -> None:
    assert parse(None, in_tokens(xml("f"))).content == xml("f")
