"""Random schemas of the supported subset, random values that come close to them, and what a validator reads them as."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c", 'q"', "é")
TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "é",
    "😀x",
    'q"',
    "\nb",
    "\x01",
    "\\",
    "2024-02-29",
    "2023-02-29",
    "1.2.3.4",
    "1.2.3.256",
)
INTEGERS = tuple(range(-3, 5))
NUMBERS = (*INTEGERS, 0.5, -0.5, 1.5, 2.25, -0.0009765625, 3e20)
BOUNDS = (*NUMBERS, -1e-7)
DIVISORS = (1, 2, 3, 0.5, 0.25, 1.5)
"""Those that are no integers are sums of powers of two, so that a validator that divides binary64 values is exact."""

PATTERNS = {
    "a": "a",
    "^a": "^a",
    "b$": "b\\Z",
    "^$": "^\\Z",
    "^[abc]*$": "^[abc]*\\Z",
    "^.$": "^[^\\n\\r\\u2028\\u2029]\\Z",
    "^.{2,}$": "^[^\\n\\r\\u2028\\u2029]{2,}\\Z",
    "[^a-c]": "[^a-c]",
    "é|x$": "é|x\\Z",
    '^\\\\|"': '^\\\\|"',
    "\\d": "[0-9]",
    "^(?:a|bc)+$": "^(?:a|bc)+\\Z",
}
"""Expressions of ECMAScript, each with the same search in Python, whose `$` and `\\d` mean more."""

FORMATS = ("date", "ipv4", "time")

names = st.sampled_from(NAMES)
scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
values = st.recursive(
    scalars,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(names, below, max_size=3)),
    max_leaves=6,
)
types = st.sampled_from(("null", "boolean", "integer", "number", "string", "array", "object"))
counts = st.integers(0, 3)
references = st.sampled_from(("#/$defs/one", "#/$defs/two", "#"))
patterns = st.sampled_from(tuple(PATTERNS))
name_lists = st.lists(names, max_size=2, unique=True)


def _keywords(below: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    several = st.lists(below, min_size=1, max_size=2)
    return {
        "type": st.one_of(types, st.lists(types, min_size=1, max_size=3, unique=True)),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "minLength": counts,
        "maxLength": counts,
        "pattern": patterns,
        "format": st.sampled_from(FORMATS),
        "minimum": st.sampled_from(BOUNDS),
        "maximum": st.sampled_from(BOUNDS),
        "exclusiveMinimum": st.sampled_from(BOUNDS),
        "exclusiveMaximum": st.sampled_from(BOUNDS),
        "multipleOf": st.sampled_from(DIVISORS),
        "properties": st.dictionaries(names, below, max_size=3),
        "patternProperties": st.dictionaries(patterns, below, max_size=2),
        "additionalProperties": below,
        "propertyNames": below,
        "minProperties": counts,
        "maxProperties": counts,
        "required": name_lists,
        "dependentRequired": st.dictionaries(names, name_lists, max_size=2),
        "dependentSchemas": st.dictionaries(names, below, max_size=2),
        "unevaluatedProperties": below,
        "items": below,
        "prefixItems": several,
        "minItems": counts,
        "maxItems": counts,
        "uniqueItems": st.booleans(),
        "contains": below,
        "minContains": counts,
        "maxContains": counts,
        "unevaluatedItems": below,
        "anyOf": several,
        "allOf": several,
        "oneOf": several,
        "not": below,
        "if": below,
        "then": below,
        "else": below,
        "$ref": references,
        "title": st.just("a title"),
    }


TOGETHER = {
    "if": ("then", "else"),
    "contains": ("minContains", "maxContains"),
    "additionalProperties": ("properties", "patternProperties"),
    "unevaluatedProperties": ("properties", "anyOf", "allOf"),
    "unevaluatedItems": ("prefixItems", "anyOf", "allOf"),
    "items": ("prefixItems",),
}
"""Keywords that say more beside others."""


@st.composite
def _objects(draw: st.DrawFn, below: st.SearchStrategy[Any]) -> dict[str, Any]:
    keywords = _keywords(below)
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True))
    beside = [other for name in chosen for other in TOGETHER.get(name, ()) if other not in chosen]
    if beside:
        chosen += draw(st.lists(st.sampled_from(beside), max_size=2, unique=True))
    return {name: draw(keywords[name]) for name in chosen}


subschemas = st.recursive(st.one_of(st.booleans(), _objects(st.booleans())), _objects, max_leaves=5)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema with two definitions that any part of it may refer to, recursively too."""
    definitions = {"one": draw(subschemas), "two": draw(subschemas)}
    return {**draw(_objects(subschemas)), "$defs": definitions}


def in_python(schema: Any) -> Any:
    """The schema with the expressions of `PATTERNS` as Python's `re` reads them."""
    if isinstance(schema, list):
        return [in_python(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _keyword_in_python(name, value) for name, value in schema.items()}


def _keyword_in_python(name: str, value: Any) -> Any:
    if name == "pattern" and isinstance(value, str):
        return PATTERNS[value]
    if name == "patternProperties":
        return {PATTERNS[pattern]: in_python(below) for pattern, below in value.items()}
    return in_python(value)


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with one part of it changed, taken away, repeated or added."""
    if isinstance(value, dict):
        return _mutated_object(value, rng)
    if isinstance(value, list):
        return _mutated_array(value, rng)
    return rng.choice((*NUMBERS, *TEXTS, None, True, False, [], {}))


def _mutated_object(value: dict[str, Any], rng: random.Random) -> Any:
    kind = rng.randrange(4)
    if kind == 0 or not value:
        return {**value, rng.choice((*NAMES, *TEXTS)): mutated(None, rng)}
    name = rng.choice(list(value))
    if kind == 1:
        return {other: below for other, below in value.items() if other != name}
    if kind == 2:
        return {rng.choice(NAMES) if other == name else other: below for other, below in value.items()}
    return {**value, name: mutated(value[name], rng)}


def _mutated_array(value: list[Any], rng: random.Random) -> Any:
    kind = rng.randrange(4)
    at = rng.randrange(len(value)) if value else 0
    if kind == 0 or not value:
        return [*value, mutated(None, rng)]
    if kind == 1:
        return [*value[:at], *value[at + 1 :]]
    if kind == 2:
        return [*value[:at], value[at], *value[at:]]
    return [*value[:at], mutated(value[at], rng), *value[at + 1 :]]
