"""Whether a given JSON value satisfies a subschema: how candidates of const and enum are filtered (JST-7)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import LimitExceeded, UnsupportedSchema
from ninfer_vllm.languages.json_schema.literals import Value, identity
from ninfer_vllm.languages.json_schema.names import is_negated, negated, place
from ninfer_vllm.languages.json_schema.schema import Applicator, Node, Presence, Schema, Type
from ninfer_vllm.limits import NESTING_DEPTH

VALUE_STEPS = 4
"""Steps of asking a subschema about a value."""


def admits(schema: Schema, name: str, value: Value, depth: int = 0) -> bool:
    """Whether the subschema of a name admits the value.

    Errors: LimitExceeded where references and nesting together go deeper than `NESTING_DEPTH`; UnsupportedSchema for
    unevaluated members and items.
    """
    if depth > NESTING_DEPTH:
        raise LimitExceeded("nesting_depth", NESTING_DEPTH, depth, place(name))
    spend(VALUE_STEPS)
    if is_negated(name):
        return not admits(schema, negated(name), value, depth)
    node = schema.nodes[name]
    if not _admits_whole(node, value):
        return False
    # Plain loops: each level of a deep value costs one frame.
    for below, part in _parts(node, value):
        if not admits(schema, below, part, depth + 1):
            return False
    if not _counts(schema, node, value, depth):
        return False
    for applicator in node.applicators:
        num_admitting = 0
        for member in applicator.members:
            num_admitting += admits(schema, member, value, depth + 1)
        if num_admitting not in _wanted(applicator):
            return False
    return True


def admits_itself(schema: Schema, node: Node, value: Value) -> bool:
    """Whether the node's own keywords admit the value, its applicators left aside."""
    return (
        _admits_whole(node, value)
        and all(admits(schema, below, part) for below, part in _parts(node, value))
        and _counts(schema, node, value, 0)
    )


def _admits_whole(node: Node, value: Value) -> bool:
    """Whether the keywords admit the value that look at it as a whole."""
    if not types_of(value) & node.types or (node.values is not None and identity(value) not in node.identities):
        return False
    if node.excluded and identity(value) in {item.identity for item in node.excluded}:
        return False
    if isinstance(value, Fraction):
        return all(bound.admits(value) for bound in node.bounds) and all(one.admits(value) for one in node.divisors)
    if isinstance(value, str):
        return node.characters.admits(len(value)) and all(one.automaton.accepts(value) for one in node.patterns)
    if isinstance(value, dict):
        return all(name in value for name in node.required) and node.members.admits(len(value))
    if not isinstance(value, tuple):
        return True
    is_unique = node.unique is None or len({identity(item) for item in value}) == len(value)
    return node.items.admits(len(value)) and is_unique


def types_of(value: Value) -> frozenset[Type]:
    """The type that the value belongs to."""
    if value is None:
        return frozenset(("null",))
    if isinstance(value, bool):
        return frozenset(("boolean",))
    if isinstance(value, Fraction):
        return frozenset(("integer",)) if value.denominator == 1 else frozenset(("fraction",))
    names: dict[type, Type] = {str: "string", tuple: "array", dict: "object"}
    return frozenset((names[type(value)],))


def _wanted(applicator: Applicator) -> range:
    """How many members must admit a value."""
    num_members = len(applicator.members)
    return {"all": range(num_members, num_members + 1), "any": range(1, num_members + 1), "one": range(1, 2)}[
        applicator.kind
    ]


def _parts(node: Node, value: Value) -> Iterator[tuple[str, Value]]:
    """The keys, members and items that a subschema of the node applies to."""
    if isinstance(value, dict):
        if node.unevaluated_properties is not None:
            raise _not_static(node.unevaluated_properties, "unevaluatedProperties")
        for name, member in value.items():
            if node.names is not None:
                yield node.names, name
            for below in member_names(node, name):
                yield below, member
    elif isinstance(value, tuple):
        if node.unevaluated_items is not None:
            raise _not_static(node.unevaluated_items, "unevaluatedItems")
        for at, item in enumerate(value):
            tail = node.prefix[at] if at < len(node.prefix) else node.tail
            if tail is not None:
                yield tail, item


def member_names(node: Node, name: str) -> Iterator[str]:
    """The subschemas that a node applies to the member of a name."""
    is_declared = name in node.fields
    if is_declared:
        yield node.fields[name]
    for pattern, below in node.patterned:
        if pattern.automaton.accepts(name):
            is_declared = True
            yield below
    if not is_declared and node.additional is not None:
        yield node.additional


def _counts(schema: Schema, node: Node, value: Value, depth: int) -> bool:
    """Whether enough items and members satisfy what only some of them must."""
    if isinstance(value, tuple):
        for containment in node.contains:
            found = 0
            for item in value[containment.start :]:
                found += admits(schema, containment.name, item, depth + 1)
            if not containment.count.admits(found):
                return False
    if isinstance(value, dict):
        return all(_is_present(schema, presence, value, depth) for presence in node.present)
    return True


def _is_present(schema: Schema, presence: Presence, value: dict[str, Value], depth: int) -> bool:
    for name, member in value.items():
        if name in presence.but or not all(pattern.automaton.accepts(name) for pattern in presence.patterns):
            continue
        if admits(schema, presence.key_name, name, depth + 1) and admits(schema, presence.name, member, depth + 1):
            return True
    return False


def _not_static(name: str, keyword: str) -> UnsupportedSchema:
    return UnsupportedSchema(
        place(name),
        keyword,
        f"{keyword} beside const or enum is not supported: list only values that it admits",
    )
