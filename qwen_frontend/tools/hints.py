"""Which types a parameter of a non-strict tool may have, as far as its schema plainly says (TOOL-3).

Nothing is refused here: what cannot be read gives no hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.languages.json_schema.document import Json, Numeral
from ninfer_vllm.languages.json_schema.references import resolve

HINT_STEPS = 1_000
"""Subschemas that are looked at for the hints of one tool: more than real ones have, little work."""

HINT_DEPTH = 16
"""Compositions and references inside each other that are followed for the types of one parameter."""

Types = frozenset[str]
"""Names of JSON types; numbers of all kinds are `number`."""

ANY_TYPE: Types = frozenset(("null", "boolean", "number", "string", "array", "object"))


class Hints:
    """The types of each parameter that a schema of parameters declares."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._left = HINT_STEPS
        self._types: dict[str, Types] = {}
        self._undeclared: Types | None = None
        for schema in self._parts(document):
            properties = schema.get("properties")
            for name, below in properties.items() if isinstance(properties, dict) else ():
                types = self._types_of(below)
                self._types[name] = self._types.get(name, types) | types
            if isinstance(schema.get("additionalProperties"), dict):
                self._undeclared = self._types_of(schema["additionalProperties"])

    def of(self, name: str) -> Types | None:
        """The types of a parameter; None where nothing is known of it."""
        return self._types.get(name, self._undeclared)

    def _parts(self, schema: Json) -> Iterator[Mapping[str, Json]]:
        """A schema and everything that its references and compositions add to the same value."""
        todo = [schema]
        while todo and self._left:
            self._left -= 1
            current = self._resolved(todo.pop())
            if not isinstance(current, dict):
                continue
            yield current
            for keyword in ("allOf", "anyOf", "oneOf"):
                members = current.get(keyword)
                todo.extend(members if isinstance(members, list) else ())

    def _types_of(self, schema: Json, depth: int = 0) -> Types:
        """The types that a schema admits: what `type`, const and enum say, intersected with its compositions."""
        if not self._left or depth > HINT_DEPTH:
            return ANY_TYPE
        self._left -= 1
        if schema is False:
            return frozenset()
        if not isinstance(schema, dict):
            return ANY_TYPE
        types = _stated(schema)
        if "$ref" in schema:
            target = self._resolved(schema)
            types &= self._types_of(target, depth + 1)
        for member in _listed(schema, "allOf"):
            types &= self._types_of(member, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if members := _listed(schema, keyword):
                types &= frozenset[str]().union(*(self._types_of(member, depth + 1) for member in members))
        return types

    def _resolved(self, schema: Json) -> Json:
        """What a reference names, through chains of references; the schema itself where it is none."""
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and self._left:
            self._left -= 1
            try:
                _, schema = resolve(self._document, str(schema["$ref"]), "", "")
            except ConstraintError:
                return None
        return schema


def type_of(value: Json) -> str:
    """The type name of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Numeral):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _stated(schema: Mapping[str, Json]) -> Types:
    types = ANY_TYPE
    stated = schema.get("type")
    names = stated if isinstance(stated, list) else [stated]
    known = frozenset("number" if name == "integer" else name for name in names if isinstance(name, str)) & ANY_TYPE
    if known:
        types &= known
    if "const" in schema:
        types &= {type_of(schema["const"])}
    values = schema.get("enum")
    return types & frozenset(map(type_of, values)) if isinstance(values, list) and values else types


def _listed(schema: Mapping[str, Json], keyword: str) -> list[Json]:
    members = schema.get(keyword)
    return members if isinstance(members, list) else []
