"""Random schemas of the supported subset, and random values that come close to them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c", 'q"', "é")
TEXTS = ("", "a", "ab", "abc", "é", "😀x", 'q"', "\n", "\x01", "\\")
INTEGERS = tuple(range(-3, 5))
NUMBERS = (*INTEGERS, 0.5, -0.5, 1.5, 2.25, -1e-7, 3e20)

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


def _keywords(below: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {
        "type": st.one_of(types, st.lists(types, min_size=1, max_size=3, unique=True)),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "minLength": counts,
        "maxLength": counts,
        "minimum": st.sampled_from(NUMBERS),
        "maximum": st.sampled_from(NUMBERS),
        "exclusiveMinimum": st.sampled_from(NUMBERS),
        "exclusiveMaximum": st.sampled_from(NUMBERS),
        "properties": st.dictionaries(names, below, max_size=3),
        "required": st.lists(names, max_size=2, unique=True),
        "additionalProperties": below,
        "items": below,
        "prefixItems": st.lists(below, min_size=1, max_size=2),
        "minItems": counts,
        "maxItems": counts,
        "anyOf": st.lists(below, min_size=1, max_size=2),
        "allOf": st.lists(below, min_size=1, max_size=2),
        "oneOf": st.lists(below, min_size=1, max_size=2),
        "$ref": references,
        "title": st.just("a title"),
    }


@st.composite
def _objects(draw: st.DrawFn, below: st.SearchStrategy[Any]) -> dict[str, Any]:
    keywords = _keywords(below)
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True))
    return {name: draw(keywords[name]) for name in chosen}


subschemas = st.recursive(st.one_of(st.booleans(), _objects(st.booleans())), _objects, max_leaves=5)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema with two definitions that any part of it may refer to, recursively too."""
    definitions = {"one": draw(subschemas), "two": draw(subschemas)}
    return {**draw(_objects(subschemas)), "$defs": definitions}
