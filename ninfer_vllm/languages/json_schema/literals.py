"""JSON values of `const` and `enum`: their exact numbers, their equality and their one spelling (JST-7, JSO-4)."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from math import isinf
from sys import float_info

from ninfer_vllm.errors import UnsupportedSchema
from ninfer_vllm.languages.json_schema.document import Json, Numeral
from ninfer_vllm.spelling import child

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

SPELLING_CHARS = 1_000
"""Characters of a number that is compared exactly: no binary64 value needs as many."""

Value = None | bool | Fraction | str | tuple["Value", ...] | dict[str, "Value"]


@dataclass(frozen=True, slots=True)
class Constant:
    """One JSON value; equal constants are spelled alike."""

    value: Value = field(compare=False)
    spelling: str
    """The canonical compact text, members in written order."""
    identity: Hashable = field(compare=False)
    """Equal for values that JSON Schema calls equal: member order and number spelling do not count."""


def constant(value: Json, pointer: str) -> Constant:
    """The constant of a document's value.

    Errors: UnsupportedSchema at the pointer of a number that parsing would round, or an integer beyond 64 bits.
    """
    return constant_of(_value(value, pointer))


def constant_of(value: Value) -> Constant:
    """The constant of an exact value."""
    return Constant(value, spell(value), identity(value))


def exact_number(value: Json, pointer: str, keyword: str) -> Fraction | None:
    """The exact value of a number; None for other values.

    Errors: UnsupportedSchema where a parser would round the number as written (JSD-9).
    """
    if isinstance(value, bool) or not isinstance(value, int | Numeral):
        return None
    if isinstance(value, int):
        return Fraction(value)
    mantissa = value.spelling.lower().partition("e")[0]
    if not mantissa.strip("-.0"):
        return Fraction(0)
    parsed = float(value.spelling)
    if isinf(parsed):
        raise UnsupportedSchema(
            pointer,
            keyword,
            f"the number {_shown(value)} is beyond the range of binary64: {float_info.max!r} is the last",
        )
    if len(value.spelling) > SPELLING_CHARS or parsed == 0 or Fraction(repr(parsed)) != Fraction(value.spelling):
        raise UnsupportedSchema(pointer, keyword, f"parsing rounds the number {_shown(value)}: write {parsed!r}")
    return Fraction(value.spelling)


def identity(value: Value) -> Hashable:
    """A key that is equal exactly for equal JSON values."""
    if isinstance(value, tuple):
        return ("array", *map(identity, value))
    if isinstance(value, dict):
        return ("object", frozenset(zip(value, map(identity, value.values()), strict=True)))
    return (type(value).__name__, value)


def spell(value: Value) -> str:
    """The canonical compact JSON text of a value."""
    if isinstance(value, tuple):
        return f"[{','.join(map(spell, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(map("{}:{}".format, map(spell, value), map(spell, value.values()))) + "}"
    if isinstance(value, Fraction):
        return str(value.numerator) if _is_int64(value) else repr(float(value))
    return json.dumps(value, ensure_ascii=False)


def _value(value: Json, pointer: str) -> Value:
    """The exact value; no frame but its own a level, so that a value as deep as the reader allows is no danger."""
    if isinstance(value, list):
        items: list[Value] = []
        for at, item in enumerate(value):
            items.append(_value(item, child(pointer, at)))
        return tuple(items)
    if isinstance(value, dict):
        members: dict[str, Value] = {}
        for name, member in value.items():
            members[name] = _value(member, child(pointer, name))
        return members
    number = exact_number(value, pointer, "const")
    if number is not None:
        if isinstance(value, int) and not _is_int64(number):
            raise UnsupportedSchema(
                pointer, "const", f"the integer {value} is outside the signed 64-bit range: write it as a string"
            )
        return number
    assert value is None or isinstance(value, bool | str)
    return value


def _shown(value: Numeral) -> str:
    return value.spelling if len(value.spelling) <= 40 else value.spelling[:40] + "…"


def _is_int64(value: Fraction) -> bool:
    return value.denominator == 1 and INT64_MIN <= value <= INT64_MAX
