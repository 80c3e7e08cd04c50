"""The keywords of arrays and objects."""

from __future__ import annotations

from dataclasses import replace

from ninfer_vllm.errors import InvalidSchema
from ninfer_vllm.languages.json_schema import checks
from ninfer_vllm.languages.json_schema.dialects import Dialect
from ninfer_vllm.languages.json_schema.document import Json
from ninfer_vllm.languages.json_schema.patterns import search_pattern
from ninfer_vllm.languages.json_schema.reader import NodeReader, Reader
from ninfer_vllm.languages.json_schema.schema import Containment, Length
from ninfer_vllm.spelling import child


def limit(value: Json, pointer: str) -> Length:
    """The counts that a keyword named min… or max… allows."""
    number = checks.count(value, pointer)
    return Length(number) if checks.keyword_at(pointer).startswith("min") else Length(0, number)


def _read_item_count(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, items=reader.node.items & limit(value, pointer))


def _read_member_count(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, members=reader.node.members & limit(value, pointer))


def _read_items(reader: NodeReader, value: Json, pointer: str) -> None:
    if not isinstance(value, list):
        reader.node = replace(reader.node, tail=reader.child(value, pointer))
    elif reader.dialect > Dialect.DRAFT_2019_09:
        raise InvalidSchema(pointer, "items must be a schema: 2020-12 states positions with prefixItems")
    else:
        reader.node = replace(reader.node, prefix=children(reader, value, pointer))


def _read_prefix_items(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, prefix=children(reader, checks.schema_list(value, pointer), pointer))


def _read_additional_items(reader: NodeReader, value: Json, pointer: str) -> None:
    # Beside an `items` that is one schema, or none, additionalItems does nothing.
    if isinstance(reader.value.get("items"), list):
        reader.node = replace(reader.node, tail=reader.child(value, pointer))


def _read_unique(reader: NodeReader, value: Json, pointer: str) -> None:
    if checks.boolean(value, pointer):
        reader.node = replace(reader.node, unique=pointer)


def _read_contains(reader: NodeReader, value: Json, pointer: str) -> None:
    counts = Length(1)
    if reader.dialect >= Dialect.DRAFT_2019_09:
        maximum = reader.value.get("maxContains")
        counts = Length(
            checks.count(reader.value.get("minContains", 1), child(reader.pointer, "minContains")),
            None if maximum is None else checks.count(maximum, child(reader.pointer, "maxContains")),
        )
    containment = Containment(reader.child(value, pointer), counts, 0, pointer)
    reader.node = replace(reader.node, contains=(containment,))


def _read_contains_count(_reader: NodeReader, value: Json, pointer: str) -> None:
    """Read beside contains; without it, it says nothing."""
    checks.count(value, pointer)


def _read_properties(reader: NodeReader, value: Json, pointer: str) -> None:
    fields = {
        name: reader.child(schema, child(pointer, name)) for name, schema in checks.object_value(value, pointer).items()
    }
    reader.node = replace(reader.node, fields=fields, own_place=len(reader.node.applicators))


def _read_pattern_properties(reader: NodeReader, value: Json, pointer: str) -> None:
    patterned = []
    for text, schema in checks.object_value(value, pointer).items():
        where = child(pointer, text)
        patterned.append((search_pattern(text, where), reader.child(schema, where)))
    reader.node = replace(reader.node, patterned=tuple(patterned))


def _read_additional_properties(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, additional=reader.child(value, pointer))


def _read_property_names(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, names=reader.child(value, pointer))


def _read_required(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, required=checks.name_list(value, pointer))


def _read_unevaluated_items(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, unevaluated_items=reader.child(value, pointer))


def _read_unevaluated_properties(reader: NodeReader, value: Json, pointer: str) -> None:
    reader.node = replace(reader.node, unevaluated_properties=reader.child(value, pointer))


def children(reader: NodeReader, schemas: list[Json], pointer: str) -> tuple[str, ...]:
    """Registers an array of subschemas."""
    return tuple(reader.child(schema, child(pointer, at)) for at, schema in enumerate(schemas))


READERS: dict[str, Reader] = {
    **dict.fromkeys(("minItems", "maxItems"), _read_item_count),
    "items": _read_items,
    "prefixItems": _read_prefix_items,
    "additionalItems": _read_additional_items,
    "uniqueItems": _read_unique,
    "contains": _read_contains,
    **dict.fromkeys(("minContains", "maxContains"), _read_contains_count),
    "unevaluatedItems": _read_unevaluated_items,
    **dict.fromkeys(("minProperties", "maxProperties"), _read_member_count),
    "properties": _read_properties,
    "patternProperties": _read_pattern_properties,
    "additionalProperties": _read_additional_properties,
    "propertyNames": _read_property_names,
    "required": _read_required,
    "unevaluatedProperties": _read_unevaluated_properties,
}
