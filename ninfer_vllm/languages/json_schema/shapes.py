"""Reduced schemas: a union of shapes, whose members and items are named by the subschemas that apply to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from ninfer_vllm.automata.work import spend
from ninfer_vllm.languages.json_schema.literals import INT64_MAX, INT64_MIN, Constant
from ninfer_vllm.languages.json_schema.names import negated
from ninfer_vllm.languages.json_schema.schema import ANY_LENGTH, Containment, Divisor, Length, Pattern

Key = tuple[str, ...]
"""The names of the subschemas that hold at once for one value; none at all is any value."""

ANY: Key = ()

CLASS_STEPS = 8
"""Steps of naming one kind of items."""


@dataclass(frozen=True, slots=True)
class Finite:
    """Exactly these values."""

    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Integers:
    """The integers from `low` to `high` that the divisors admit."""

    low: int
    high: int
    divisors: tuple[Divisor, ...] = ()


@dataclass(frozen=True, slots=True)
class Numbers:
    """The decimals of 17 significant digits from `low` to `high`, and the plain integers of `integers`."""

    low: Fraction
    high: Fraction
    integers: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Decimals:
    """The plain decimals of 15 significant digits from `low` to `high` that the divisors admit.

    With so few digits, what holds for the written decimal holds for the binary64 value that it parses to.
    """

    low: Fraction
    high: Fraction
    divisors: tuple[Divisor, ...]
    is_whole: bool
    """Whether integers are among them."""


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
    contains: tuple[Containment, ...] = ()
    unique: str | None = field(default=None)
    """The uniqueItems keyword that holds."""

    def position(self, at: int) -> Key:
        """What holds for the item at an index."""
        return self.prefix[at] if at < len(self.prefix) else self.tail

    def item_classes(self, at: int) -> Iterator[tuple[Key, tuple[int, ...]]]:
        """The kinds of items at an index: what holds for each, and how much it adds to the count of each `contains`."""
        active = [at >= containment.start for containment in self.contains]
        for held in product(*((0, 1) if is_active else (0,) for is_active in active)):
            spend(CLASS_STEPS)
            names = [
                containment.name if holds else negated(containment.name)
                for containment, holds, is_active in zip(self.contains, held, active, strict=True)
                if is_active
            ]
            yield tuple(dict.fromkeys((*self.position(at), *names))), held

    @property
    def num_positions(self) -> int:
        """Indexes from which on all items are alike."""
        return max((len(self.prefix), *(containment.start for containment in self.contains)))


@dataclass(frozen=True, slots=True)
class Field:
    """One named member."""

    name: str
    key: Key
    is_required: bool


@dataclass(frozen=True, slots=True)
class Others:
    """Members under keys that no field has; without `keys`, under all of these."""

    keys: Pattern | None
    key: Key


@dataclass(frozen=True, slots=True)
class Object:
    """Members in the order in which they are written, then any others."""

    fields: tuple[Field, ...]
    others: tuple[Others, ...]
    count: Length = ANY_LENGTH
    witnesses: tuple[Others, ...] = ()
    """Members that must be there, behind all others."""


Shape = Finite | Integers | Numbers | Decimals | Strings | Array | Object

ANY_INTEGER = Integers(INT64_MIN, INT64_MAX)
ANY_STRING = Strings(ANY_LENGTH, ())
ANY_ARRAY = Array((), ANY, ANY_LENGTH)
ANY_OBJECT = Object((), (Others(None, ANY),))


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
        if shape.contains:
            for at in range(shape.num_positions + 1):
                yield from (key for key, _ in shape.item_classes(at))
    elif isinstance(shape, Object):
        yield from (member.key for member in shape.fields)
        yield from (other.key for other in (*shape.others, *shape.witnesses))


def keys_needed(shape: Shape) -> Iterator[Key]:
    """The keys that must have a value for the shape to have one."""
    if isinstance(shape, Object):
        yield from (member.key for member in shape.fields if member.is_required)
        yield from (witness.key for witness in shape.witnesses)
    elif isinstance(shape, Array):
        yield from (shape.position(at) for at in range(min(shape.length.minimum, len(shape.prefix) + 1)))
