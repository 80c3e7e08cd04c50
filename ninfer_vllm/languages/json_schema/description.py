"""A reduced schema described for people: every part that a value can have, with what is admitted there."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from ninfer_vllm.languages.json_schema.emptiness import is_inhabited
from ninfer_vllm.languages.json_schema.intersect import Reducer
from ninfer_vllm.languages.json_schema.literals import INT64_MAX, INT64_MIN
from ninfer_vllm.languages.json_schema.names import ANY_VALUE, NO_VALUE, is_negated, negated, place
from ninfer_vllm.languages.json_schema.numbers import ANY_NUMBER
from ninfer_vllm.languages.json_schema.schema import Divisor, Length, Pattern
from ninfer_vllm.languages.json_schema.shapes import (
    ANY,
    Array,
    Decimals,
    Finite,
    Integers,
    Key,
    Numbers,
    Object,
    Others,
    Shape,
    Strings,
    keys_below,
)

SHOWN_VALUES = 20
"""Values of a finite set that are shown."""

SHOWN_CHARS = 200
"""Characters of a value or an expression that are shown."""


@dataclass(frozen=True, slots=True)
class Part:
    """What holds for the values at one place."""

    name: str
    """The subschemas that apply at once, as places in the document."""
    lines: tuple[str, ...]
    """What is admitted: a line a kind of value, followed by indented lines about its members or items."""


def described(reducer: Reducer, inhabited: frozenset[Key]) -> Iterator[Part]:
    """The parts that can be met from the root, in the order in which they are first mentioned."""
    todo = [reducer.root]
    seen = {ANY, reducer.root}
    for key in todo:  # grows while it is read
        shapes = [shape for shape in reducer.reduce(key).shapes if is_inhabited(shape, inhabited)]
        yield Part(key_text(key), tuple(line for shape in shapes for line in _lines(shape, inhabited)))
        for shape in shapes:
            for below in keys_below(shape):
                if below in inhabited and below not in seen:
                    seen.add(below)
                    todo.append(below)


def key_text(key: Key) -> str:
    """The subschemas of a key, joined."""
    return " and ".join(map(_name_text, key)) or "any value"


def _name_text(name: str) -> str:
    if name in (ANY_VALUE, NO_VALUE):
        return "any value" if name == ANY_VALUE else "no value"
    if is_negated(name):
        return f"not {_name_text(negated(name))}"
    pointer = place(name)
    mark = name[: len(name) - len(pointer)].strip("=:")
    return f"#{pointer}" + (f" ({mark.partition('(')[0]})" if mark else "")


def _lines(shape: Shape, inhabited: frozenset[Key]) -> Iterator[str]:
    if isinstance(shape, Array):
        yield from _array(shape, inhabited)
    elif isinstance(shape, Object):
        yield from _object(shape, inhabited)
    elif isinstance(shape, Finite):
        yield f"one of {_listed([item.spelling for item in shape.values])}"
    elif isinstance(shape, Strings):
        parts = ["string", *_length(shape.length, "character"), *map(pattern_text, shape.patterns)]
        yield ", ".join(parts)
    else:
        yield _number(shape)


def _number(shape: Integers | Numbers | Decimals) -> str:
    if shape == ANY_NUMBER:
        return "number"
    if isinstance(shape, Integers):
        bounds = [] if shape.low == INT64_MIN else [f"at least {shape.low}"]
        bounds += [] if shape.high == INT64_MAX else [f"at most {shape.high}"]
        return ", ".join(["integer", *bounds, *map(_divisor, shape.divisors)])
    bounds = [] if shape.low == ANY_NUMBER.low else [f"at least {_decimal(shape.low)}"]
    bounds += [] if shape.high == ANY_NUMBER.high else [f"at most {_decimal(shape.high)}"]
    if isinstance(shape, Numbers):
        return ", ".join(["number", *bounds])
    kind = "plain decimal" if shape.is_whole else "plain decimal that is no integer"
    return ", ".join([kind, *bounds, *map(_divisor, shape.divisors)])


def _array(shape: Array, inhabited: frozenset[Key]) -> Iterator[str]:
    yield ", ".join(["array", *_length(shape.length, "item"), *(["all different"] if shape.unique else [])])
    for at, key in enumerate(shape.prefix):
        yield f"    item {at}: {_below(key, inhabited)}"
    if shape.length.maximum is None or shape.length.maximum > len(shape.prefix):
        yield f"    {'other items' if shape.prefix else 'items'}: {_below(shape.tail, inhabited)}"
    for containment in shape.contains:
        start = f" from item {containment.start} on" if containment.start else ""
        (count,) = _length(containment.count, "item") or ("some items",)
        yield f"    {count}{start} are {key_text((containment.name,))}"


def _object(shape: Object, inhabited: frozenset[Key]) -> Iterator[str]:
    yield ", ".join(["object", *_length(shape.count, "member")])
    for field in shape.fields:
        if field.key in inhabited:
            needed = "required" if field.is_required else "optional"
            yield f"    {_cut(repr(field.name))}, {needed}: {_below(field.key, inhabited)}"
    others = [other for other in shape.others if other.key in inhabited]
    for other in others:
        yield f"    {_keys(other, has_fields=bool(shape.fields))}: {_below(other.key, inhabited)}"
    for witness in shape.witnesses:
        yield f"    one more under {_keys(witness, has_fields=True)}: {_below(witness.key, inhabited)}"
    if not others:
        yield "    no other members"


def _keys(other: Others, *, has_fields: bool) -> str:
    if other.keys is None:
        return "other keys" if has_fields else "any key"
    return f"a key {pattern_text(other.keys)}"


def _below(key: Key, inhabited: frozenset[Key]) -> str:
    return key_text(key) if key in inhabited else "no value"


def pattern_text(pattern: Pattern) -> str:
    """What the strings of a pattern are."""
    return _cut(_pattern(pattern.name))


def _pattern(name: Hashable) -> str:
    """A pattern by its name, which tells how it was made."""
    assert isinstance(name, tuple)
    kind, *parts = name
    if kind == "not" and parts[0][0] == "texts":
        return f"other than {_listed([repr(text) for text in parts[0][1:]])}"
    if kind == "not":
        return f"not {_pattern(parts[0])}"
    if kind in ("and", "or"):
        return f"({f' {kind} '.join(map(_pattern, parts))})"
    if kind == "keys":
        return f"that is {key_text(parts[0])}"
    if kind == "present":
        return f"that is {key_text((parts[0],))}" + (f", other than {_listed(map(repr, parts[1]))}" if parts[1] else "")
    return {"pattern": "matching ", "format": "of format "}[kind] + str(parts[0])


def _length(length: Length, unit: str) -> list[str]:
    low, high = length.minimum, length.maximum
    if high is None:
        return [f"at least {low} {unit}{'s' * (low != 1)}"] if low else []
    plural = "s" * (high != 1)
    return [f"{high} {unit}{plural}" if low == high else f"{low} to {high} {unit}{plural}"]


def _divisor(divisor: Divisor) -> str:
    return f"{'no ' if divisor.is_negated else ''}multiple of {_decimal(divisor.value)}"


def _decimal(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 and abs(value) < 10**18 else repr(float(value))


def _listed(items: Iterator[str] | list[str]) -> str:
    found = list(items)
    more = len(found) - SHOWN_VALUES
    return ", ".join(map(_cut, found[:SHOWN_VALUES])) + (f" and {more} more" if more > 0 else "")


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
