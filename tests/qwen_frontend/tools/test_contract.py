"""Tool lists: what is read, what is refused and where, and what the compiled identity holds."""

from __future__ import annotations

from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint, ToolChoice, ToolConstraint
from ninfer_vllm.errors import (
    ConflictingConstraint,
    ConstraintError,
    InvalidSchema,
    InvalidTools,
    LimitExceeded,
    UnrepresentableToolValue,
    UnsupportedSchema,
)
from ninfer_vllm.grammar.ir import Regular, walk
from qwen_frontend.tools.contract import ToolContract
from tests.support.calls import contract_of, tool

AT = "/0/function/parameters"
DELIMITED = "a\n</parameter>b"


def lowered(tools: Any, dialect: Any = "xml", choice: Any = "auto") -> Any:
    from qwen_frontend.tools.grammar import lower_tools

    return lower_tools(contract_of(tools, choice, dialect), None, 1, 2)


@pytest.mark.contract("TOOL-9", "ERR-1")
@pytest.mark.parametrize(
    ("tools", "error", "pointer"),
    [
        ([tool("a", {}), tool("a", {})], InvalidTools, "/1/function/name"),
        ([{"type": "function", "function": {"name": ""}}], InvalidTools, "/0/function/name"),
        ([{"name": 3}], InvalidTools, "/0/name"),
        ([{"name": "bad name!"}], InvalidTools, "/0/name"),
        ([{"name": "f>\n"}], InvalidTools, "/0/name"),
        ([{"name": "mcp__files/a.b-c_1:0"}, {"name": "天气"}, {"name": "9"}], None, ""),
        ([{"type": "web_search"}], InvalidTools, "/0/type"),
        ([3], InvalidTools, "/0"),
        ("{}", InvalidTools, ""),
        ('[{"name": "a", "name": "b"}]', InvalidTools, ""),
        ([{"type": "function", "function": {"name": "a", "strict": 1}}], InvalidTools, "/0/function/strict"),
        ([tool("a", {}, strict=False, type="array")], UnsupportedSchema, f"{AT}/type"),
        ([{"name": "a", "parameters": []}], UnsupportedSchema, "/0/parameters"),
        ([tool("a", {}, additionalProperties=True)], UnsupportedSchema, f"{AT}/additionalProperties"),
        ([{"name": "a", "strict": True, "parameters": {"type": "object"}}], UnsupportedSchema, "/0/parameters"),
        ([{"name": "a", "strict": True, "parameters": {"enum": [{}]}}], UnsupportedSchema, "/0/parameters/enum"),
        ([tool("a", {}, anyOf=[{"minProperties": 0}, {"required": []}])], None, ""),
        ([tool("a", {}, type=["object", "null"])], UnsupportedSchema, f"{AT}/type"),
        ([tool("a", {"x": {"type": "strin"}})], InvalidSchema, f"{AT}/properties/x/type"),
        ([tool("a", {"x": {"typ": "string"}})], UnsupportedSchema, f"{AT}/properties/x/typ"),
        ([tool("a", {"x": {"maxLength": 2, "type": "string", "minLength": 99999}})], ConstraintError, None),
    ],
)
def test_bad_lists_are_refused_at_their_place(tools: Any, error: Any, pointer: str | None) -> None:
    if error is None:
        lowered(tools)
        return
    with pytest.raises(error) as caught:
        lowered(tools)
    assert pointer is None or caught.value.place["pointer"] == pointer


@pytest.mark.contract("TOOL-9")
def test_root_may_reduce_to_an_object_through_references_and_all_of() -> None:
    schema = {
        "$defs": {"base": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}},
        "allOf": [{"$ref": "#/$defs/base"}],
        "required": ["a"],
    }
    contract = contract_of([{"name": "f", "strict": True, "parameters": schema}])
    assert [member.name for member in contract.tools[0].object.members] == ["a"]


@pytest.mark.contract("TOOL-9")
def test_root_of_several_objects_is_refused() -> None:
    closed = {"type": "object", "additionalProperties": False}
    one = {**closed, "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    two = {**closed, "properties": {"b": {"type": "integer"}}, "required": ["b"]}
    with pytest.raises(UnsupportedSchema) as caught:
        lowered([{"name": "f", "strict": True, "parameters": {"anyOf": [one, two]}}])
    assert caught.value.pointer == "/0/parameters/anyOf"


@pytest.mark.contract("TOOL-7")
@pytest.mark.parametrize(
    ("schema", "is_refused"),
    [
        ({"type": ["string", "null"]}, True),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, True),
        ({}, True),
        ({"enum": ["1", 1]}, True),
        ({"enum": ['{"a": 1}', {"a": 1}]}, True),
        ({"anyOf": [{"type": "string", "pattern": "^[0-9]+$"}, {"type": "number"}]}, True),
        ({"anyOf": [{"type": "string", "pattern": "^\\{"}, {"type": "object"}]}, True),
        ({"enum": ["one", 1, None, [2]]}, False),
        ({"anyOf": [{"type": "string", "pattern": "^[a-m]+$"}, {"type": ["integer", "null"]}]}, False),
        ({"type": ["integer", "null", "boolean"]}, False),
        ({"anyOf": [{"type": "array"}, {"type": "object"}]}, False),
        ({"type": "string"}, False),
    ],
)
def test_unions_with_strings_are_refused_where_texts_cannot_tell(schema: Any, is_refused: bool) -> None:
    lowered([tool("f", {"x": schema})], "hermes")
    if not is_refused:
        lowered([tool("f", {"x": schema})])
        return
    with pytest.raises(UnsupportedSchema) as caught:
        lowered([tool("f", {"x": schema})])
    assert caught.value.pointer == f"{AT}/properties/x"


@pytest.mark.contract("TOOL-8", "WEX-6")
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"const": DELIMITED}, "/const"),
        ({"enum": ["ok", DELIMITED]}, "/enum"),
        ({"anyOf": [{"const": "ok"}, {"const": DELIMITED}]}, "/anyOf/1/const"),
        ({"type": "string", "pattern": "\\n</parameter>"}, ""),
    ],
)
def test_values_that_need_the_delimiter_are_refused_in_xml_alone(schema: Any, place: str) -> None:
    lowered([tool("f", {"x": schema})], "hermes")
    with pytest.raises(UnrepresentableToolValue) as caught:
        lowered([tool("f", {"x": schema})])
    assert caught.value.place == {"pointer": f"{AT}/properties/x{place}"}


@pytest.mark.contract("TOOL-8")
@pytest.mark.parametrize("name", ["a>b", "a\nb"])
def test_names_that_cannot_be_written_are_refused_in_xml_alone(name: str) -> None:
    lowered([tool("f", {name: {"type": "string"}})], "hermes")
    with pytest.raises(UnrepresentableToolValue) as caught:
        lowered([tool("f", {name: {"type": "string"}})])
    assert caught.value.pointer.startswith(f"{AT}/properties/a")


@pytest.mark.contract("TOOL-8", "CMP-9")
def test_long_counted_strings_are_a_located_limit() -> None:
    lowered([tool("f", {"x": {"type": "string", "maxLength": 1000}})])
    with pytest.raises(LimitExceeded) as caught:
        lowered([tool("f", {"x": {"type": "string", "maxLength": 100_000}})])
    assert caught.value.pointer == f"{AT}/properties/x"


@pytest.mark.contract("TOOL-4", "CMP-9")
@pytest.mark.parametrize("dialect", ["xml", "hermes"])
def test_what_many_tools_have_in_common_is_paid_for_once(dialect: Any) -> None:
    number, names = {"type": "number"}, [f"f{at}" for at in range(150)]
    grammar = lowered([tool(name, {"x": number, "y": {"type": "string"}}) for name in names], dialect)
    assert len([rule for rule in grammar.rules if rule.startswith("call")]) == len(names) + 1


@pytest.mark.contract("TOOL-8", "CMP-9")
def test_counted_strings_of_many_tools_are_one_automaton() -> None:
    bounded = {"type": "string", "maxLength": 300}
    grammar = lowered([tool(f"f{at}", {"x": bounded, "y": bounded}) for at in range(20)])
    nodes = (node for body in grammar.rules.values() for node in walk(body))
    assert sum(isinstance(node, Regular) and len(node.automaton.edges) > 300 for node in nodes) == 1


@pytest.mark.contract("TOOL-3")
def test_schemas_of_free_tools_never_reach_the_strict_compiler() -> None:
    strange = {"anyOf": [{"type": "nonsense"}, {"$ref": "#/none"}], "properties": 3, "unknown": {"a": []}}
    lowered([{"name": "f", "parameters": strange}])


@pytest.mark.contract("TOOL-5", "TOOL-14")
@pytest.mark.parametrize(
    "choice", [{"type": "function", "function": {"name": "nope"}}, ToolChoice("auto", ("f", "nope"))]
)
def test_unknown_names_are_refused(choice: Any) -> None:
    with pytest.raises(InvalidTools, match="nope"):
        contract_of([tool("f", {})], choice)


@pytest.mark.contract("TOOL-5")
def test_required_call_of_no_tool_is_refused() -> None:
    with pytest.raises(InvalidTools):
        contract_of([], "required")


@pytest.mark.contract("TOOL-14")
@pytest.mark.parametrize(
    ("value", "choice"),
    [
        ("auto", ToolChoice()),
        ("required", ToolChoice("required")),
        ("none", ToolChoice("none")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("required", ("f",), False)),
        ({"type": "function", "name": "f"}, ToolChoice("required", ("f",), False)),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"function": {"name": "f"}}]}},
            ToolChoice("required", ("f",)),
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "f"}]}, ToolChoice("auto", ("f",))),
    ],
)
def test_openai_choices_map_to_one_policy(value: Any, choice: ToolChoice) -> None:
    assert ToolChoice.of(value) == choice


@pytest.mark.contract("TOOL-14")
@pytest.mark.parametrize("value", ["any", {"type": "x"}, {"type": "function"}, {"type": "allowed_tools"}, 3])
def test_other_choices_are_refused(value: Any) -> None:
    with pytest.raises(ConflictingConstraint):
        ToolChoice.of(value)


@pytest.mark.contract("REQ-5", "TOOL-12")
def test_only_json_bodies_go_with_active_tools() -> None:
    expression = OutputConstraint.regex("a")
    with pytest.raises(ConflictingConstraint):
        ToolConstraint([tool("f", {})], "auto", expression)
    assert ToolConstraint([tool("f", {})], "none", expression).body == expression


@pytest.mark.contract("TOOL-13", "CMP-2")
def test_identity_holds_strict_schemas_and_no_hints() -> None:
    def identity(tools: Any, choice: Any = "auto") -> list[str]:
        return list(ToolContract.of(ToolConstraint(tools, choice), "xml").identity())

    free = tool("f", {"a": {"type": "integer"}}, strict=False)
    assert identity([free]) == identity([tool("f", {"b": {"type": "string"}}, strict=False)])
    assert identity([free]) != identity([tool("g", {}, strict=False)])
    assert identity([free]) != identity([free], "required")
    strict = tool("f", {"a": {"type": "integer"}, "b": {"type": "integer"}})
    assert identity([strict]) != identity([free])
    assert identity([strict]) != identity([tool("f", {"b": {"type": "integer"}, "a": {"type": "integer"}})])


@pytest.mark.contract("TOOL-2")
@pytest.mark.parametrize(
    ("tools", "choice", "is_enforced"),
    [
        ([tool("f", {}, strict=False)], ToolChoice(), True),
        ([tool("f", {}, strict=False)], ToolChoice(enforcement="automatic"), False),
        ([tool("f", {})], ToolChoice(enforcement="automatic"), True),
        ([tool("f", {}, strict=False)], ToolChoice("required", enforcement="automatic"), True),
        ([tool("f", {}, strict=False)], ToolChoice("none", enforcement="automatic"), True),
        ([tool("f", {}, strict=False)], ToolChoice("auto", ("f",), enforcement="automatic"), True),
        ([tool("f", {}, strict=False)], ToolChoice("auto", None, False, "automatic"), True),
        ([], ToolChoice(), False),
    ],
)
def test_enforcement_is_basic_or_what_is_asked_for(tools: Any, choice: ToolChoice, is_enforced: bool) -> None:
    assert contract_of(tools, choice).is_enforced is is_enforced


def test_constraints_are_hashable_values() -> None:
    one, other = (ToolConstraint([tool("f", {})], "required") for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != ToolConstraint([tool("f", {})], "auto")
