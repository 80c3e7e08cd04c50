"""The keywords that apply several subschemas to one value: references, combinations, conditions, dependencies.

Conditions and dependencies are stated with derived nodes: `if` is (if and then) or (not if and else), a dependency on
a member is (the member is absent) or (it is there, and more holds).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ninfer_vllm.errors import InvalidSchema
from ninfer_vllm.languages.json_schema import checks
from ninfer_vllm.languages.json_schema.containers import children
from ninfer_vllm.languages.json_schema.document import Json
from ninfer_vllm.languages.json_schema.names import ANY_VALUE, NO_VALUE, derived, negated
from ninfer_vllm.languages.json_schema.reader import NodeReader, Reader
from ninfer_vllm.languages.json_schema.schema import Applicator, Node
from ninfer_vllm.spelling import child


def _read_ref(reader: NodeReader, value: Json, pointer: str) -> None:
    if not isinstance(value, str):
        raise InvalidSchema(pointer, "$ref must be a string")
    reader.reference = (value, pointer)
    _apply(reader, Applicator("all", pointer, (pointer,)))


def _read_applicator(reader: NodeReader, value: Json, pointer: str) -> None:
    kinds: dict[str, Literal["all", "any", "one"]] = {"allOf": "all", "anyOf": "any", "oneOf": "one"}
    members = children(reader, checks.schema_list(value, pointer), pointer)
    _apply(reader, Applicator(kinds[checks.keyword_at(pointer)], pointer, members))


def _read_not(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.late.append(Applicator("all", pointer, (negated(reader.child(value, pointer)),)))


def _read_if(reader: NodeReader, value: Json, pointer: str) -> None:
    condition = reader.child(value, pointer)
    cases = []
    for keyword, holds in (("then", condition), ("else", negated(condition))):
        where = child(reader.pointer, keyword)
        implied = reader.child(reader.value[keyword], where) if keyword in reader.value else ANY_VALUE
        case = Applicator("all", where, (holds, implied))
        cases.append(reader.add(Node(derived(keyword, pointer), applicators=(case,))))
    reader.late.append(Applicator("any", pointer, tuple(cases)))


def _read_case(_reader: NodeReader, _value: Json, _pointer: str) -> None:
    """Read beside `if`; without it, it says nothing."""


def _read_dependencies(reader: NodeReader, value: Json, pointer: str) -> None:
    is_written_as_names = checks.keyword_at(pointer) == "dependentRequired"
    for name, dependency in checks.object_value(value, pointer).items():
        where = child(pointer, name)
        if is_written_as_names or (isinstance(dependency, list) and checks.keyword_at(pointer) == "dependencies"):
            names = (name, *checks.name_list(dependency, where))
            there = Node(derived("with", where), frozenset(("object",)), required=tuple(dict.fromkeys(names)))
        else:
            implied = Applicator("all", where, (reader.child(dependency, where),))
            there = Node(derived("with", where), frozenset(("object",)), required=(name,), applicators=(implied,))
        absent = Node(derived("without", where), fields={name: NO_VALUE})
        reader.late.append(Applicator("any", where, (reader.add(absent), reader.add(there))))


def _apply(reader: NodeReader, applicator: Applicator) -> None:
    reader.node = replace(reader.node, applicators=(*reader.node.applicators, applicator))


READERS: dict[str, Reader] = {
    "$ref": _read_ref,
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _read_applicator),
    "not": _read_not,
    "if": _read_if,
    **dict.fromkeys(("then", "else"), _read_case),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), _read_dependencies),
}
