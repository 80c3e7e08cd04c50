"""The keywords that name types, values, texts, numbers and places, and the table of all keyword functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ninfer_vllm.errors import InvalidSchema, UnsupportedSchema
from ninfer_vllm.languages.json_schema import checks, composition, containers
from ninfer_vllm.languages.json_schema.dialects import Dialect, named_dialect
from ninfer_vllm.languages.json_schema.document import Json
from ninfer_vllm.languages.json_schema.formats import FORMATS, NOT_REGULAR, RANGES, range_bounds, text_automaton
from ninfer_vllm.languages.json_schema.literals import Constant, constant, exact_number
from ninfer_vllm.languages.json_schema.patterns import search_pattern
from ninfer_vllm.languages.json_schema.reader import NodeReader, Reader
from ninfer_vllm.languages.json_schema.schema import TYPE_NAMES, Bound, Divisor, Pattern, Type
from ninfer_vllm.spelling import child


def read_node(pointer: str, value: dict[str, Json], dialect: Dialect, *, ignores_unknown: bool) -> NodeReader:
    """Reads one subschema object."""
    reader = NodeReader(pointer, value, dialect, ignores_unknown=ignores_unknown)
    reader.read(READERS)
    reader.node = replace(reader.node, applicators=(*reader.node.applicators, *reader.late))
    return reader


def _read_schema_uri(reader: NodeReader, value: Json, pointer: str) -> None:
    if named_dialect(value, pointer) != reader.dialect:
        raise UnsupportedSchema(
            pointer,
            "$schema",
            "a part of the document in another dialect is not supported: state one $schema, at the root",
        )


def _read_id(reader: NodeReader, value: Json, pointer: str) -> None:
    name = reader.dialect.id_keyword
    if not isinstance(value, str):
        raise InvalidSchema(pointer, f"{name} must be a string")
    if reader.pointer:
        reason = f"{name} counts only at the root, below it would change what $ref names: leave it out"
        raise UnsupportedSchema(pointer, name, reason)


def _read_definitions(_reader: NodeReader, value: Json, pointer: str) -> None:
    checks.object_value(value, pointer)


def _read_type(reader: NodeReader, value: Json, pointer: str) -> None:
    names = value if isinstance(value, list) else [value]
    if not names:
        raise InvalidSchema(pointer, "type must name at least one type")
    found: set[Type] = set()
    for at, name in enumerate(names):
        where = child(pointer, at) if isinstance(value, list) else pointer
        if not isinstance(name, str):
            raise InvalidSchema(where, "type must be a string or an array of strings")
        if name not in TYPE_NAMES:
            raise InvalidSchema(where, f"unknown type {name!r}: the types are {', '.join(TYPE_NAMES)}")
        found |= TYPE_NAMES[name]
    reader.node = replace(reader.node, types=frozenset(found))


def _read_enum(reader: NodeReader, value: Json, pointer: str) -> None:
    if not isinstance(value, list):
        raise InvalidSchema(pointer, "enum must be an array")
    constants = (constant(item, child(pointer, at)) for at, item in enumerate(value))
    _restrict_values(reader, dict.fromkeys(constants), pointer)


def _read_const(reader: NodeReader, value: Json, pointer: str) -> None:
    _restrict_values(reader, [constant(value, pointer)], pointer)


def _restrict_values(reader: NodeReader, constants: Iterable[Constant], pointer: str) -> None:
    kept = tuple(item for item in constants if reader.node.values is None or item.identity in reader.node.identities)
    identities = frozenset(item.identity for item in kept)
    reader.node = replace(reader.node, values=kept, values_pointer=pointer, identities=identities)


def _read_length(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, characters=reader.node.characters & containers.limit(value, pointer))


def _read_pattern(reader: NodeReader, value: Json, pointer: str) -> None:
    pattern = search_pattern(checks.string(value, pointer), pointer)
    reader.node = replace(reader.node, patterns=(*reader.node.patterns, pattern))


def _read_format(reader: NodeReader, value: Json, pointer: str) -> None:
    name = checks.string(value, pointer)
    if name in RANGES:
        reader.node = replace(reader.node, bounds=(*reader.node.bounds, *range_bounds(name)))
    elif name in FORMATS:
        pattern = Pattern(("format", name), text_automaton(name), pointer)
        reader.node = replace(reader.node, patterns=(*reader.node.patterns, pattern))
    elif not reader.ignores_unknown or name in NOT_REGULAR:
        reason = f"the format {name!r} is not enforced; enforced formats: {', '.join(FORMATS)}"
        raise UnsupportedSchema(pointer, "format", reason)


def _read_bound(reader: NodeReader, value: Json, pointer: str) -> None:
    name = checks.keyword_at(pointer)
    if reader.dialect is Dialect.DRAFT_04 and name in BOOLEAN_BOUNDS:
        checks.boolean(value, pointer)
        return
    number = exact_number(value, pointer, name)
    if number is None:
        raise InvalidSchema(pointer, f"{name} must be a number")
    is_strict = name in BOOLEAN_BOUNDS
    if reader.dialect is Dialect.DRAFT_04:
        is_strict = reader.value.get("exclusive" + name[0].upper() + name[1:]) is True
    bound = Bound(number, name.lower().endswith("minimum"), is_strict, is_integer=isinstance(value, int))
    reader.node = replace(reader.node, bounds=(*reader.node.bounds, bound))


def _read_multiple_of(reader: NodeReader, value: Json, pointer: str) -> None:
    divisor = Divisor(checks.number_above_zero(value, pointer), is_negated=False, pointer=pointer)
    reader.node = replace(reader.node, divisors=(*reader.node.divisors, divisor))


BOOLEAN_BOUNDS = ("exclusiveMinimum", "exclusiveMaximum")

READERS: dict[str, Reader] = {
    "$schema": _read_schema_uri,
    **dict.fromkeys(("id", "$id"), _read_id),
    **dict.fromkeys(("definitions", "$defs"), _read_definitions),
    "type": _read_type,
    "enum": _read_enum,
    "const": _read_const,
    **dict.fromkeys(("minLength", "maxLength"), _read_length),
    "pattern": _read_pattern,
    "format": _read_format,
    **dict.fromkeys(("minimum", "maximum", *BOOLEAN_BOUNDS), _read_bound),
    "multipleOf": _read_multiple_of,
    **containers.READERS,
    **composition.READERS,
}
