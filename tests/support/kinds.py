"""Constraints of every kind, each with an authority that is not ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema
import regex
from pydantic import BaseModel, ConfigDict, Field

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.languages.lowering import lower
from tests.support.oracles.recogniser import Recogniser


class Person(BaseModel):
    """Flat, with an optional member."""

    name: str = Field(min_length=1, max_length=8)
    age: int = Field(ge=0, le=130)
    email: str | None = Field(default=None, max_length=6)


class Item(BaseModel):
    """A part of `Order`."""

    model_config = ConfigDict(extra="forbid")

    sku: str = Field(max_length=4)
    count: int = Field(gt=0, lt=100)
    price: Annotated[float, Field(ge=0, le=1000)]


class Order(BaseModel):
    """Nested arrays and objects, closed."""

    model_config = ConfigDict(extra="forbid")

    items: list[Item] = Field(min_length=1, max_length=2)
    state: Literal["open", "paid", "sent"]
    urgent: bool


class Circle(BaseModel):
    """One branch of `Drawing`."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["circle"]
    radius: int = Field(ge=1, le=9)


class Label(BaseModel):
    """The other branch of `Drawing`."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["label"]
    text: str = Field(max_length=5)


class Drawing(BaseModel):
    """A union behind a reference."""

    model_config = ConfigDict(extra="forbid")

    shape: Circle | Label
    tags: list[Literal["a", "b"]] = Field(default=[], max_length=3)


class Tree(BaseModel):
    """Recursive."""

    model_config = ConfigDict(extra="forbid")

    value: int = Field(ge=-5, le=5)
    children: list[Tree] = Field(max_length=2)


LITERALS = ["positive", "negative", "neutral", "北京", "北京市", "two words", "naïve Ünïcode", "🙂", "a", "aa"]
DATE = r"\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])"
NAMES = r"[A-Z][a-zà-ÿ]{1,7}( [A-Z][a-zà-ÿ]{1,7}){0,2}"
ADDRESSES = r"\w+(\.\w+)*@[a-z]+\.(com|org)"
LISTS = r"""
# Nested lists of short numbers: the JSON texts of a small language.
root   ::= list
list   ::= "[" ( item ( "," item )* )? "]"
item   ::= number | list
number ::= "0" | [1-9] [0-9]{0,2}
"""
RECORD = 'root ::= "status=" ("ok" | "error") (" code=" [0-9]{1,3})? "\\n"'


@dataclass(frozen=True, slots=True)
class Kind:
    """A constraint, who says what belongs to it, and who says what may still become so."""

    name: str
    constraint: OutputConstraint
    is_member: Callable[[str], bool]
    is_prefix: Callable[[bytes], bool]


def choice(name: str, literals: list[str]) -> Kind:
    """A choice; judged by enumeration."""
    return Kind(
        name,
        OutputConstraint.choice(literals),
        lambda text: text in literals,
        lambda data: any(literal.encode().startswith(data) for literal in literals),
    )


def expression(name: str, source: str) -> Kind:
    """A regular expression; judged by `re`, its prefixes by `regex`."""
    return Kind(
        name,
        OutputConstraint.regex(source),
        lambda text: re.fullmatch(source, text, re.ASCII) is not None,
        lambda data: regex.fullmatch(source, whole_characters(data), regex.ASCII, partial=True) is not None,
    )


def grammar(name: str, source: str, is_member: Callable[[str], bool]) -> Kind:
    """A grammar; members judged by `is_member`, prefixes by the recogniser."""
    constraint = OutputConstraint.grammar(source)
    return Kind(name, constraint, is_member, prefixes_of(constraint))


def schema(model: type[BaseModel]) -> Kind:
    """A pydantic model; judged by pydantic and jsonschema."""
    constraint = OutputConstraint.json_schema(model)
    return Kind(model.__name__, constraint, lambda text: admits(model, text), prefixes_of(constraint))


def prefixes_of(constraint: OutputConstraint) -> Callable[[bytes], bool]:
    """The recogniser's judgement of prefixes."""
    recogniser = Recogniser(lower(constraint))
    return recogniser.is_prefix


def admits(model: type[BaseModel], text: str) -> bool:
    """Whether the text is a compact JSON spelling of an instance, by two validators."""
    value = json.loads(text, parse_constant=_refuse_constant)
    model.model_validate_json(text)
    jsonschema.validate(value, model.model_json_schema(), cls=jsonschema.Draft202012Validator)
    return not re.search(r"\s", re.sub(r'"(\\.|[^"\\])*"', "", text))


def is_compact_object(text: str) -> bool:
    """Whether the text is a JSON object without white space outside strings."""
    outside_strings = re.sub(r'"(\\.|[^"\\])*"', "", text)
    return isinstance(json.loads(text, parse_constant=_refuse_constant), dict) and not re.search(r"\s", outside_strings)


def is_list_text(text: str) -> bool:
    """Whether the text is a nested list of numbers below 1000, as JSON without white space."""
    value = json.loads(text)
    return isinstance(value, list) and text == json.dumps(value, separators=(",", ":")) and _small(value)


def whole_characters(data: bytes) -> str:
    """The text without a character that is cut off at its end.

    Errors: UnicodeDecodeError if anything else is wrong with it.
    """
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode()
        except UnicodeDecodeError as error:
            if cut == 3 or error.reason != "unexpected end of data":
                raise
    raise AssertionError("unreachable")


def _small(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_small, value))
    return isinstance(value, int) and 0 <= value < 1000


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def all_kinds() -> dict[str, tuple[Kind, ...]]:
    """Every language, with several constraints each."""
    objects = OutputConstraint.json_object()
    return {
        "choice": (choice("literals", LITERALS),),
        "regex": (expression("date", DATE), expression("names", NAMES), expression("addresses", ADDRESSES)),
        "grammar": (
            grammar("lists", LISTS, is_list_text),
            grammar("record", RECORD, lambda text: bool(re.fullmatch(r"status=(ok|error)( code=[0-9]{1,3})?\n", text))),
        ),
        "json_object": (Kind("object", objects, is_compact_object, prefixes_of(objects)),),
        "json_schema": tuple(map(schema, (Person, Order, Drawing, Tree))),
    }
