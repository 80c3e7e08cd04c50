"""The shapes that keyword values must have, each fault at its pointer."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from ninfer_vllm.errors import InvalidSchema, LimitExceeded
from ninfer_vllm.languages.json_schema.document import Json
from ninfer_vllm.languages.json_schema.literals import exact_number
from ninfer_vllm.limits import REPEAT_BOUND
from ninfer_vllm.spelling import child


def keyword_at(pointer: str) -> str:
    """The keyword that a pointer ends with."""
    return pointer.rpartition("/")[2]


def object_value(value: Json, pointer: str) -> dict[str, Json]:
    """An object."""
    if not isinstance(value, dict):
        raise InvalidSchema(pointer, f"{keyword_at(pointer)} must be an object")
    return value


def schema_list(value: Json, pointer: str) -> list[Json]:
    """An array of at least one subschema."""
    if not isinstance(value, list) or not value:
        raise InvalidSchema(pointer, f"{keyword_at(pointer)} must be an array of at least one schema")
    return value


def name_list(value: Json, pointer: str) -> tuple[str, ...]:
    """An array of names, each kept once."""
    if not isinstance(value, list):
        raise InvalidSchema(pointer, f"{keyword_at(pointer)} must be an array of names")
    for at, name in enumerate(value):
        if not isinstance(name, str):
            raise InvalidSchema(child(pointer, at), f"{keyword_at(pointer)} must be an array of names")
    return tuple(dict.fromkeys(cast("list[str]", value)))


def count(value: Json, pointer: str) -> int:
    """An integer of at least 0."""
    name = keyword_at(pointer)
    number = exact_number(value, pointer, name)
    if number is None or number.denominator != 1 or number < 0:
        raise InvalidSchema(pointer, f"{name} must be an integer that is not negative")
    if number > REPEAT_BOUND:
        raise LimitExceeded("repeat_bound", REPEAT_BOUND, int(number), pointer)
    return int(number)


def string(value: Json, pointer: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise InvalidSchema(pointer, f"{keyword_at(pointer)} must be a string")
    return value


def boolean(value: Json, pointer: str) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise InvalidSchema(pointer, f"{keyword_at(pointer)} must be a boolean")
    return value


def number_above_zero(value: Json, pointer: str) -> Fraction:
    """A number above 0."""
    name = keyword_at(pointer)
    number = exact_number(value, pointer, name)
    if number is None or number <= 0:
        raise InvalidSchema(pointer, f"{name} must be a number above 0")
    return number
