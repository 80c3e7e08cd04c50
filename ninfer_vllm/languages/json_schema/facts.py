"""The facts of one branch merged into shapes (JSC-3, JST)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ninfer_vllm.automata.algebra import complement, finite
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import ConstraintError, LimitExceeded
from ninfer_vllm.languages.json_schema.admits import admits_itself, types_of
from ninfer_vllm.languages.json_schema.branches import Branch
from ninfer_vllm.languages.json_schema.literals import Constant, constant
from ninfer_vllm.languages.json_schema.multiples import number_shapes
from ninfer_vllm.languages.json_schema.names import place
from ninfer_vllm.languages.json_schema.numbers import ANY_NUMBER
from ninfer_vllm.languages.json_schema.object_facts import key_of, object_shapes
from ninfer_vllm.languages.json_schema.refusals import Report, at_once
from ninfer_vllm.languages.json_schema.schema import ANY_LENGTH, Length, Node, Pattern, Schema, Type
from ninfer_vllm.languages.json_schema.shapes import (
    ANY_ARRAY,
    ANY_INTEGER,
    ANY_OBJECT,
    ANY_STRING,
    Array,
    Finite,
    Key,
    Reduced,
    Shape,
    Strings,
)
from ninfer_vllm.languages.json_schema.strings import decoded
from ninfer_vllm.limits import CONTAINMENTS

NULL = constant(None, "")
BOOLEANS = (constant(True, ""), constant(False, ""))
SHAPE_ORDER: tuple[Type, ...] = ("object", "array", "string", "fraction", "integer", "boolean", "null")

FREE: dict[Type, Shape] = {
    "object": ANY_OBJECT,
    "array": ANY_ARRAY,
    "string": ANY_STRING,
    "fraction": ANY_NUMBER,
    "integer": ANY_INTEGER,
}
"""The types of which something can be refused, each without any assertion."""

VALUE_STEPS = 4
"""Steps of asking a fact about a listed value."""

KIND_STEPS = 15
"""Steps of merging what facts say about one type."""

BRANCH_STEPS = 4
"""Steps of looking at one fact of a branch."""


def shapes_of(
    schema: Schema, branch: Branch, pointer: str, key_texts: Callable[[Key], Dfa], report: Report = at_once
) -> Reduced:
    """The shapes of a branch; `pointer` is where it is said to be empty, or not writable.

    `key_texts` gives the strings that a key admits. What is refused goes to `report`: UnsupportedSchema where numbers
    are allowed, but none that can be written, and what objects, arrays and strings are refused for.
    """
    facts = [schema.nodes[fact] for fact in branch.facts]
    spend(BRANCH_STEPS * (1 + len(facts)))
    stated = next((fact for fact in facts if fact.values is not None), None)
    if stated is not None:
        try:
            return _finite(schema, branch.types, facts, stated, pointer)
        except ConstraintError as problem:
            report(problem)
            return Reduced((Finite(stated.values or ()),))
    shapes: list[Shape] = []
    reasons: list[str] = []
    for kind in SHAPE_ORDER:
        # Where every number is allowed, the integers among them need no shape of their own.
        if kind in branch.types and not (kind == "integer" and "fraction" in branch.types):
            spend(KIND_STEPS)
            try:
                found = _shapes(schema, kind, facts, pointer, branch.types, key_texts)
            except ConstraintError as problem:
                report(problem)
                found = [FREE[kind]]
            if isinstance(found, str):
                reasons.append(found)
            else:
                shapes.extend(found)
    return Reduced(tuple(shapes), pointer, "; ".join(reasons))


def _finite(schema: Schema, types: frozenset[Type], facts: list[Node], stated: Node, pointer: str) -> Reduced:
    if not stated.values:
        return Reduced((), stated.values_pointer, "no value is allowed: const and enum leave none")
    spend(VALUE_STEPS * len(stated.values) * len(facts))
    kept = tuple(item for item in stated.values if _is_kept(schema, item, types, facts))
    if kept:
        return Reduced((Finite(kept),))
    return Reduced((), pointer, "no value of const or enum satisfies the other keywords")


def _is_kept(schema: Schema, item: Constant, types: frozenset[Type], facts: list[Node]) -> bool:
    return bool(types_of(item.value) & types) and all(admits_itself(schema, fact, item.value) for fact in facts)


def _shapes(
    schema: Schema,
    kind: Type,
    facts: list[Node],
    pointer: str,
    types: frozenset[Type],
    key_texts: Callable[[Key], Dfa],
) -> list[Shape] | str:
    """The shapes of one type, or why there are none."""
    if kind in ("null", "boolean"):
        excluded = {item.identity for item in _excluded(facts)}
        kept = [item for item in ((NULL,) if kind == "null" else BOOLEANS) if item.identity not in excluded]
        return [Finite(tuple(kept))] if kept else "the only values are excluded"
    if kind == "string":
        return _strings(facts, pointer)
    if kind == "array":
        return _array(schema, facts)
    if kind == "object":
        return object_shapes(schema, facts, key_texts)
    return number_shapes(facts, is_whole="integer" in types, is_broken="fraction" in types, pointer=pointer)


def _excluded(facts: list[Node]) -> Iterator[Constant]:
    for fact in facts:
        yield from fact.excluded


def _strings(facts: list[Node], pointer: str) -> list[Shape] | str:
    length = shared_length(fact.characters for fact in facts)
    if length.is_empty:
        return "minLength is above maxLength"
    patterns = {pattern.name: pattern for fact in facts for pattern in fact.patterns}
    texts = tuple(dict.fromkeys(item.value for item in _excluded(facts) if isinstance(item.value, str)))
    if texts:
        name = ("not", ("texts", *texts))
        patterns[name] = Pattern(name, complement(finite(texts)), pointer)
    shape = Strings(length, tuple(patterns.values()))
    if patterns and decoded(shape, shape.patterns[0].pointer).is_empty:
        return "no string has the length and matches the patterns and formats"
    return [shape]


def _array(schema: Schema, facts: list[Node]) -> list[Shape] | str:
    num_positions = max((len(fact.prefix) for fact in facts), default=0)
    prefix = tuple(key_of(schema, _at_position(facts, at)) for at in range(num_positions))
    tail = key_of(schema, (fact.tail for fact in facts if fact.tail is not None))
    length = shared_length(fact.items for fact in facts)
    contains = tuple(dict.fromkeys(one for fact in facts for one in fact.contains if one.count != ANY_LENGTH))
    unique = next((fact.unique for fact in facts if fact.unique is not None), None)
    if length.is_empty:
        return "minItems is above maxItems"
    if any(one.count.is_empty for one in contains):
        return "minContains is above maxContains"
    if len(contains) > CONTAINMENTS:
        raise LimitExceeded("containments", CONTAINMENTS, len(contains), place(contains[0].pointer))
    return [Array(prefix, tail, length, contains, unique if length.maximum not in (0, 1) else None)]


def shared_length(lengths: Iterable[Length]) -> Length:
    """What all the lengths allow."""
    shared = ANY_LENGTH
    for length in lengths:
        shared = shared & length
    return shared


def _at_position(facts: list[Node], at: int) -> Iterator[str]:
    for fact in facts:
        name = fact.prefix[at] if at < len(fact.prefix) else fact.tail
        if name is not None:
            yield name
