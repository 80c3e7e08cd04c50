"""The facts of one branch merged into shapes: at most one a type (JSC-3, JST)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ninfer_vllm.languages.json_schema import numbers
from ninfer_vllm.languages.json_schema.admits import admits_itself, types_of
from ninfer_vllm.languages.json_schema.branches import Branch
from ninfer_vllm.languages.json_schema.literals import Constant, constant
from ninfer_vllm.languages.json_schema.schema import ANY_LENGTH, Length, Node, Schema, Type
from ninfer_vllm.languages.json_schema.shapes import Array, Field, Finite, Key, Object, Reduced, Shape, Strings

NULL = constant(None, "")
BOOLEANS = (constant(True, ""), constant(False, ""))
SHAPE_ORDER: tuple[Type, ...] = ("object", "array", "string", "fraction", "integer", "boolean", "null")


def key_of(schema: Schema, pointers: Iterable[str]) -> Key:
    """The key of subschemas: each once, those that admit everything left out."""
    return tuple(pointer for pointer in dict.fromkeys(pointers) if not schema.nodes[pointer].is_trivial)


def shapes_of(schema: Schema, branch: Branch, pointer: str) -> Reduced:
    """The shapes of a branch; `pointer` is where it is said to be empty, or not writable.

    Errors: UnsupportedSchema where numbers are allowed, but none that can be written.
    """
    facts = [schema.nodes[fact] for fact in branch.facts]
    if any(fact.values is not None for fact in facts):
        return _finite(schema, branch.types, facts, pointer)
    shapes: list[Shape] = []
    reasons: list[str] = []
    for kind in SHAPE_ORDER:
        # Where every number is allowed, the integers among them need no shape of their own.
        if kind in branch.types and not (kind == "integer" and "fraction" in branch.types):
            shape = _shape(schema, kind, facts, pointer)
            (reasons if isinstance(shape, str) else shapes).append(shape)  # type: ignore[arg-type]
    return Reduced(tuple(shapes), pointer, "; ".join(reasons))


def _finite(schema: Schema, types: frozenset[Type], facts: list[Node], pointer: str) -> Reduced:
    stated = next(fact for fact in facts if fact.values is not None)
    if not stated.values:
        return Reduced((), stated.values_pointer, "no value is allowed: const and enum leave none")
    kept = tuple(item for item in stated.values if _is_kept(schema, item, types, facts))
    if kept:
        return Reduced((Finite(kept),))
    return Reduced((), pointer, "no value of const or enum satisfies the other keywords")


def _is_kept(schema: Schema, item: Constant, types: frozenset[Type], facts: list[Node]) -> bool:
    return bool(types_of(item.value) & types) and all(admits_itself(schema, fact, item.value) for fact in facts)


def _shape(schema: Schema, kind: Type, facts: list[Node], pointer: str) -> Shape | str:
    """The shape of one type, or why there is none."""
    if kind in ("null", "boolean"):
        return Finite((NULL,)) if kind == "null" else Finite(BOOLEANS)
    if kind == "string":
        length = _shared_length(fact.characters for fact in facts)
        patterns = tuple(pattern for fact in facts for pattern in fact.patterns)
        return "minLength is above maxLength" if length.is_empty else Strings(length, patterns)
    if kind == "array":
        array = _array(schema, facts)
        return "minItems is above maxItems" if array.length.is_empty else array
    if kind == "object":
        return _object(schema, facts)
    bounds = tuple(bound for fact in facts for bound in fact.bounds)
    shape = numbers.integers(bounds, pointer) if kind == "integer" else numbers.numbers(bounds, pointer)
    return "no number lies between the bounds" if shape is None else shape


def _array(schema: Schema, facts: list[Node]) -> Array:
    num_positions = max((len(fact.prefix) for fact in facts), default=0)
    prefix = tuple(key_of(schema, _at_position(facts, at)) for at in range(num_positions))
    tail = key_of(schema, (fact.tail for fact in facts if fact.tail is not None))
    return Array(prefix, tail, _shared_length(fact.items for fact in facts))


def _object(schema: Schema, facts: list[Node]) -> Object:
    required = dict.fromkeys(name for fact in facts for name in fact.required)
    # A required name that nobody declares is written behind the declared ones, under additionalProperties.
    names = dict.fromkeys((*(name for fact in facts for name in fact.fields), *required))
    fields = tuple(Field(name, key_of(schema, _of_name(facts, name)), name in required) for name in names)
    return Object(fields, key_of(schema, (fact.additional for fact in facts if fact.additional is not None)))


def _shared_length(lengths: Iterable[Length]) -> Length:
    shared = ANY_LENGTH
    for length in lengths:
        shared = shared & length
    return shared


def _at_position(facts: list[Node], at: int) -> Iterator[str]:
    for fact in facts:
        pointer = fact.prefix[at] if at < len(fact.prefix) else fact.tail
        if pointer is not None:
            yield pointer


def _of_name(facts: list[Node], name: str) -> Iterator[str]:
    """What each fact says about a member: `properties` where it declares the name, else `additionalProperties`."""
    for fact in facts:
        pointer = fact.fields.get(name, fact.additional)
        if pointer is not None:
            yield pointer
