"""Whether a given JSON value satisfies a subschema: how candidates of const and enum are filtered (JST-7)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.languages.json_schema.literals import Value, identity
from ninfer_vllm.languages.json_schema.schema import Applicator, Node, Schema, Type
from ninfer_vllm.limits import NESTING_DEPTH


def admits(schema: Schema, pointer: str, value: Value, depth: int = 0) -> bool:
    """Whether the subschema at `pointer` admits the value.

    Errors: LimitExceeded where references and nesting together go deeper than `NESTING_DEPTH`.
    """
    if depth > NESTING_DEPTH:
        raise LimitExceeded("nesting_depth", NESTING_DEPTH, depth, pointer)
    node = schema.nodes[pointer]
    if not _admits_whole(node, value):
        return False
    # Plain loops: each level of a deep value costs one frame.
    for below, part in _parts(node, value):
        if not admits(schema, below, part, depth + 1):
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
    return _admits_whole(node, value) and all(admits(schema, below, part) for below, part in _parts(node, value))


def _admits_whole(node: Node, value: Value) -> bool:
    """Whether the keywords admit the value that look at it as a whole."""
    if not types_of(value) & node.types or (node.values is not None and identity(value) not in node.identities):
        return False
    if isinstance(value, Fraction):
        return all(bound.admits(value) for bound in node.bounds)
    if isinstance(value, str):
        return node.characters.admits(len(value)) and all(one.automaton.accepts(value) for one in node.patterns)
    if isinstance(value, dict):
        return all(name in value for name in node.required)
    return not isinstance(value, tuple) or node.items.admits(len(value))


def types_of(value: Value) -> frozenset[Type]:
    """The types that the value belongs to."""
    if value is None:
        return frozenset(("null",))
    if isinstance(value, bool):
        return frozenset(("boolean",))
    if isinstance(value, Fraction):
        # A number that is not an integer is only admitted where every number is.
        return frozenset(("integer", "fraction")) if value.denominator == 1 else frozenset(("fraction",))
    names: dict[type, Type] = {str: "string", tuple: "array", dict: "object"}
    return frozenset((names[type(value)],))


def _wanted(applicator: Applicator) -> range:
    """How many members must admit a value."""
    num_members = len(applicator.members)
    return {"all": range(num_members, num_members + 1), "any": range(1, num_members + 1), "one": range(1, 2)}[
        applicator.kind
    ]


def _parts(node: Node, value: Value) -> Iterator[tuple[str, Value]]:
    """The members and items that a subschema of the node applies to."""
    if isinstance(value, dict):
        for name, member in value.items():
            pointer = node.fields.get(name, node.additional)
            if pointer is not None:
                yield pointer, member
    elif isinstance(value, tuple):
        for at, item in enumerate(value):
            pointer = node.prefix[at] if at < len(node.prefix) else node.tail
            if pointer is not None:
                yield pointer, item
