"""Constraints made to hold up an engine, each with a text to walk: the list every engine was measured on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ninfer_vllm.constraint import OutputConstraint


@dataclass(frozen=True, slots=True)
class Hard:
    """A constraint, and the beginning of a text of it."""

    name: str
    constraint: Callable[[], OutputConstraint]
    text: str


def hard_constraints() -> list[Hard]:
    """The whole list, in the order it is reported."""
    return [*_strings(), *_regexes(), *_objects(), *_nested(), *_grammars(), *_large()]


def _schema(name: str, schema: Any, value: Any, *, text: str | None = None) -> Hard:
    written = json.dumps(value, separators=(",", ":")) if text is None else text
    return Hard(name, lambda: OutputConstraint.json_schema(schema), written)


def _regex(source: str, text: str, name: str = "") -> Hard:
    return Hard(name or f"regex {source}", lambda: OutputConstraint.regex(source), text)


def _grammar(name: str, source: str, text: str) -> Hard:
    return Hard(name, lambda: OutputConstraint.grammar(source), text)


def _strings() -> list[Hard]:
    prefixed = ["x" * 200 + f"{at:05}" for at in range(10_000)]
    return [
        _schema("string maxLength 1,000", {"type": "string", "maxLength": 1_000}, "hello world " * 20),
        _schema("string maxLength 100,000", {"type": "string", "maxLength": 100_000}, "hello world " * 20),
        _schema(
            "string minLength 10,000", {"type": "string", "minLength": 10_000}, None, text='"' + "hello world " * 20
        ),
        _schema(
            "40 properties maxLength 20 to 59",
            _object({f"p{at}": {"type": "string", "maxLength": 20 + at} for at in range(40)}, required=True),
            {f"p{at}": f"text {at}" for at in range(40)},
        ),
        _schema(
            "pattern foo.*bar.*baz, maxLength 2,000",
            {"type": "string", "pattern": "foo.*bar.*baz", "maxLength": 2_000},
            "foo and bar and baz" * 3,
        ),
        _schema("enum of 10,000", {"enum": [f"item {at}" for at in range(10_000)]}, "item 9999"),
        _schema("enum of 50,000", {"enum": [f"item {at}" for at in range(50_000)]}, "item 49999"),
        _schema("enum of 10,000 with a common prefix", {"enum": prefixed}, prefixed[-1]),
        _schema("const of 1 MB", {"const": "ab" * 500_000}, None, text='"' + "ab" * 300),
    ]


def _regexes() -> list[Hard]:
    return [
        _regex("[a-z]{1,10000}", "abcdefgh" * 30),
        _regex("(a{1,1000}){1,1000}b", "a" * 300 + "b"),
        _regex("((a|b){1,100}){1,100}c", "ab" * 150 + "c"),
        _regex(".{0,5000}x", "text " * 60 + "x"),
        _regex("(a?){500}a{500}", "a" * 600),
        _regex(".*a.{200}", "banana " * 40),
        _regex(".*[ab].{15}", "banana cab " * 20),
        _regex("|".join(f"word{at}" for at in range(5_000)), "word4999", "regex of 5,000 alternatives"),
        _regex("ab" * 32_000, "ab" * 300, "regex literal of 64,000"),
        _regex("((a{0,50}){0,50}){0,50}", "a" * 300),
    ]


def _objects() -> list[Hard]:
    integer = {"type": "integer"}
    optional = {f"p{at}": integer for at in range(1_000)}
    tagged = [_object({"t": {"const": f"kind{at}"}, f"v{at}": integer}, required=True) for at in range(2_000)]
    common = [_object({"a": integer, "b": integer, f"v{at}": integer}, required=True) for at in range(500)]
    patterns = {f"^p{at}_": integer for at in range(200)}
    return [
        _schema("anyOf 2,000 tagged objects", {"anyOf": tagged}, {"t": "kind1999", "v1999": 1}),
        _schema("anyOf 500 objects with a common prefix", {"anyOf": common}, {"a": 1, "b": 2, "v499": 3}),
        _schema("100 optional properties", _object(dict(list(optional.items())[:100])), {"p7": 1, "p99": 2}),
        _schema("1,000 optional properties", _object(optional), {"p7": 1, "p500": 2, "p999": 3}),
        _schema(
            "1,000 optional and additional properties",
            {"type": "object", "properties": optional, "additionalProperties": integer},
            {"p7": 1, "p500": 2, "other": 3, "more": 4},
        ),
        _schema(
            "200 optional, minProperties 100",
            {**_object(dict(list(optional.items())[:200])), "minProperties": 100},
            {f"p{at}": 1 for at in range(100)},
        ),
        _schema("200 patternProperties", {"type": "object", "patternProperties": patterns}, {"p7_x": 1, "q": "text"}),
    ]


def _nested() -> list[Hard]:
    arrays: Any = {"type": "integer"}
    for _ in range(12):
        arrays = {"anyOf": [{"type": "array", "items": arrays}, {"type": "array", "items": arrays}]}
    row = {"type": "array", "items": {"type": "integer"}}
    cube = {"type": "integer"}
    for _ in range(3):
        cube = {"type": "array", "items": cube, "minItems": 100, "maxItems": 100}
    chain = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(5_000)} | {"d5000": {"type": "integer"}}
    every = {"allOf": [{"anyOf": [{"required": [f"k{at}{way}"]} for way in range(4)]} for at in range(8)]}
    return [
        _schema("array of 10 to 1,000", {**row, "minItems": 10, "maxItems": 1_000}, list(range(100))),
        _schema("array of exactly 20,000 objects", _exactly(20_000), [{"a": 1}] * 100),
        _schema("arrays of 100 x 100 x 100", cube, None, text="[[[" + ",".join(["1"] * 100) + "],["),
        _schema("anyOf of two equal arrays, nested 12", arrays, None, text="[" * 12 + "1" + "]" * 12),
        _schema("recursive anyOf", _recursive(), [[{"a": [1, "x"]}], {"a": 2}]),
        _schema("8 allOf of 4 anyOf", {"type": "object", **every}, {f"k{at}0": 1 for at in range(8)}),
        _schema("allOf nested 200", _deep(200, lambda below: {"allOf": [below]}), 1),
        _schema(
            "objects nested 900",
            _deep(900, lambda below: _object({"a": below}, required=True)),
            None,
            text='{"a":' * 50,
        ),
        _schema("arrays nested 500", _deep(500, lambda below: {"type": "array", "items": below}), None, text="[" * 500),
        _schema("anyOf nested 3,000", _deep(3_000, lambda below: {"anyOf": [below, {"type": "null"}]}), 1),
        _schema("$ref to itself", {"$ref": "#"}, 1),
        _schema("$ref chain of 5,000", {"$ref": "#/$defs/d0", "$defs": chain}, 1),
    ]


def _grammars() -> list[Hard]:
    rules = "\n".join(f'r{at} ::= "x{at}" r{at + 1}' for at in range(3_000))
    units = "\n".join(f"r{at} ::= r{at + 1}" for at in range(20_000))
    return [
        _grammar("GBNF ambiguous a{0,400}", 'root ::= ("a" | "aa" | "aaa"){0,400}', "a" * 300),
        _grammar("GBNF (((a{1,50}){1,50}){1,50}", 'root ::= (("a"{1,50}){1,50}){1,50}', "a" * 300),
        _grammar("GBNF (((a | aa){2,30}){2,30}){2,30}", 'root ::= (("a" | "aa"){2,30}){2,30}', "a" * 200),
        _grammar("GBNF 3,000 rules", f'root ::= r0\n{rules}\nr3000 ::= "y"', "".join(f"x{at}" for at in range(60))),
        _grammar("GBNF a{0,1000000}", 'root ::= "a"{0,1000000}', "a" * 300),
        _grammar("GBNF literal of 1 MB", f'root ::= "{"ab" * 500_000}"', "ab" * 300),
        _grammar("GBNF chain of 20,000 rules", f'root ::= r0\n{units}\nr20000 ::= "y"', "y"),
    ]


def _large() -> list[Hard]:
    return [
        _schema(
            "20,000 object properties",
            _object({f"property{at}": _object({f"inner{at}": {"type": "string"}}) for at in range(20_000)}),
            {"property0": {"inner0": "text"}},
        ),
    ]


def _object(properties: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    names = {"required": list(properties)} if required else {}
    return {"type": "object", "properties": properties, "additionalProperties": False, **names}


def _exactly(count: int) -> dict[str, Any]:
    item = _object({"a": {"type": "integer"}}, required=True)
    return {"type": "array", "items": item, "minItems": count, "maxItems": count}


def _recursive() -> dict[str, Any]:
    node = {"$ref": "#/$defs/node"}
    kinds = [{"type": "integer"}, {"type": "string"}, {"type": "array", "items": node}, _object({"a": node})]
    return {**node, "$defs": {"node": {"anyOf": kinds}}}


def _deep(levels: int, around: Callable[[Any], Any]) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = around(schema)
    return schema
