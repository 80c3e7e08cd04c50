"""Reduced schemas: a union of shapes, whose members and items are named by the subschemas that apply to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ninfer_vllm.languages.json_schema.literals import INT64_MAX, INT64_MIN, Constant
from ninfer_vllm.languages.json_schema.schema import ANY_LENGTH, Length, Pattern

Key = tuple[str, ...]
"""The pointers of the subschemas that hold at once for one value; none at all is any value."""

ANY: Key = ()


@dataclass(frozen=True, slots=True)
class Finite:
    """Exactly these values."""

    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Integers:
    """The integers from `low` to `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """The decimals of 17 significant digits from `low` to `high`, and the plain integers of `integers`."""

    low: Fraction
    high: Fraction
    integers: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Strings:
    """The strings of a length that all the patterns accept."""

    length: Length
    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Positions with their own schema, then items of the tail."""

    prefix: tuple[Key, ...]
    tail: Key
    length: Length

    def position(self, at: int) -> Key:
        """What holds for the item at an index."""
        return self.prefix[at] if at < len(self.prefix) else self.tail


@dataclass(frozen=True, slots=True)
class Field:
    """One named member."""

    name: str
    key: Key
    is_required: bool


@dataclass(frozen=True, slots=True)
class Object:
    """Members in the order in which they are written, then any others under `additional`."""

    fields: tuple[Field, ...]
    additional: Key


Shape = Finite | Integers | Numbers | Strings | Array | Object

ANY_INTEGER = Integers(INT64_MIN, INT64_MAX)
ANY_STRING = Strings(ANY_LENGTH, ())
ANY_ARRAY = Array((), ANY, ANY_LENGTH)
ANY_OBJECT = Object((), ANY)


@dataclass(frozen=True, slots=True)
class Reduced:
    """The shapes of a key; without any, `pointer` and `reason` say why no value is left."""

    shapes: tuple[Shape, ...]
    pointer: str = ""
    reason: str = ""


def keys_below(shape: Shape) -> Iterator[Key]:
    """The keys of members and items."""
    if isinstance(shape, Array):
        yield from shape.prefix
        yield shape.tail
    elif isinstance(shape, Object):
        yield from (field.key for field in shape.fields)
        yield shape.additional


def keys_needed(shape: Shape) -> Iterator[Key]:
    """The keys that must have a value for the shape to have one."""
    if isinstance(shape, Object):
        yield from (field.key for field in shape.fields if field.is_required)
    elif isinstance(shape, Array):
        yield from (shape.position(at) for at in range(min(shape.length.minimum, len(shape.prefix) + 1)))
