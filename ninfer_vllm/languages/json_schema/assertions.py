"""One subschema's keywords read into a node: shapes of keyword values are checked here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Literal, cast

from ninfer_vllm.errors import ConstraintError, InvalidSchema, LimitExceeded, UnsupportedSchema
from ninfer_vllm.languages.json_schema.dialects import Dialect, named_dialect
from ninfer_vllm.languages.json_schema.document import Json
from ninfer_vllm.languages.json_schema.keywords import FORMATS, Keyword, find, unknown_reason
from ninfer_vllm.languages.json_schema.literals import Constant, constant, exact_number
from ninfer_vllm.languages.json_schema.references import child
from ninfer_vllm.languages.json_schema.schema import ALL_TYPES, TYPE_NAMES, Applicator, Bound, Length, Node, Type
from ninfer_vllm.limits import REPEAT_BOUND


class NodeReader:
    """Reads one subschema object; what it finds wrong is collected, so that every fault can be reported."""

    def __init__(self, pointer: str, value: dict[str, Json], dialect: Dialect, *, ignores_unknown: bool) -> None:
        self.pointer = pointer
        self.problems: list[ConstraintError] = []
        self.children: list[tuple[str, Json]] = []
        """Subschemas of this one, in reading order."""
        self.reference: tuple[str, str] | None = None
        """The `$ref` value and its pointer; the reader's caller resolves it."""
        self._value = value
        self._dialect = dialect
        self._ignores_unknown = ignores_unknown
        self._types: frozenset[Type] = ALL_TYPES
        self._values: tuple[Constant, ...] | None = None
        self._values_pointer = ""
        self._counts: dict[str, int] = {}
        self._bounds: list[Bound] = []
        self._prefix: tuple[str, ...] = ()
        self._tail: str | None = None
        self._fields: dict[str, str] = {}
        self._additional: str | None = None
        self._required: tuple[str, ...] = ()
        self._applicators: list[Applicator] = []
        self._own_place = 0

    def read(self) -> Node:
        """The node of the subschema; `problems` holds what was refused."""
        self._check_reference_siblings()
        for name, value in self._value.items():
            try:
                self._keyword(name, value, child(self.pointer, name))
            except ConstraintError as problem:
                self.problems.append(problem)
        return Node(
            self.pointer,
            types=self._types,
            values=self._values,
            values_pointer=self._values_pointer,
            identities=frozenset(item.identity for item in self._values or ()),
            characters=Length(self._counts.get("minLength", 0), self._counts.get("maxLength")),
            bounds=tuple(self._bounds),
            items=Length(self._counts.get("minItems", 0), self._counts.get("maxItems")),
            prefix=self._prefix,
            tail=self._tail,
            fields=self._fields,
            additional=self._additional,
            required=self._required,
            applicators=tuple(self._applicators),
            own_place=self._own_place,
        )

    def _keyword(self, name: str, value: Json, pointer: str) -> None:
        keyword = find(name, self._dialect)
        if keyword is None:
            if not self._ignores_unknown:
                raise UnsupportedSchema(pointer, name, unknown_reason(name, self._dialect))
        elif keyword.role == "refused":
            self._refused(keyword, value, pointer)
        elif keyword.role in ("assertion", "location"):
            read = READERS.get(name)
            if read is not None:
                read(self, value, pointer)

    def _refused(self, keyword: Keyword, value: Json, pointer: str) -> None:
        check = SHAPES.get(keyword.name)
        if check is not None:
            check(value, pointer)
        if any(value == vacuous and isinstance(value, type(vacuous)) for vacuous in keyword.vacuous):
            return
        if keyword.name == "format" and self._ignores_unknown and value not in FORMATS:
            return
        raise UnsupportedSchema(pointer, keyword.name, f"{keyword.name} is not enforced; {keyword.advice}")

    def _check_reference_siblings(self) -> None:
        """Older drafts ignore what stands beside `$ref`; asserting it or dropping it would both surprise."""
        if "$ref" not in self._value or self._dialect.applies_ref_siblings:
            return
        for name in self._value:
            keyword = find(name, self._dialect)
            counts = not self._ignores_unknown if keyword is None else keyword.role in ("assertion", "refused")
            if counts and name != "$ref":
                reason = f"{self._dialect.title} ignores {name} beside $ref: put both into allOf"
                self.problems.append(UnsupportedSchema(child(self.pointer, name), name, reason))

    def _child(self, value: Json, pointer: str) -> str:
        """Registers a subschema."""
        self.children.append((pointer, value))
        return pointer

    def _read_schema_uri(self, value: Json, pointer: str) -> None:
        if named_dialect(value, pointer) != self._dialect:
            raise UnsupportedSchema(pointer, "$schema", "a part of the document in another dialect is not supported")

    def _read_id(self, value: Json, pointer: str) -> None:
        if not isinstance(value, str):
            raise InvalidSchema(pointer, f"{self._dialect.id_keyword} must be a string")
        if self.pointer:
            name = self._dialect.id_keyword
            raise UnsupportedSchema(
                pointer, name, f"{name} counts only at the root: below, it would change what $ref names"
            )

    def _read_definitions(self, value: Json, pointer: str) -> None:
        _object(value, pointer)

    def _read_ref(self, value: Json, pointer: str) -> None:
        if not isinstance(value, str):
            raise InvalidSchema(pointer, "$ref must be a string")
        self.reference = (value, pointer)
        self._applicators.append(Applicator("all", pointer, (pointer,)))

    def _read_type(self, value: Json, pointer: str) -> None:
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
        self._types = frozenset(found)

    def _read_enum(self, value: Json, pointer: str) -> None:
        if not isinstance(value, list):
            raise InvalidSchema(pointer, "enum must be an array")
        constants = (constant(item, child(pointer, at)) for at, item in enumerate(value))
        self._restrict_values({item.identity: item for item in constants}.values(), pointer)

    def _read_const(self, value: Json, pointer: str) -> None:
        self._restrict_values([constant(value, pointer)], pointer)

    def _restrict_values(self, constants: Iterable[Constant], pointer: str) -> None:
        kept = tuple(constants)
        if self._values is not None:
            allowed = {item.identity for item in self._values}
            kept = tuple(item for item in kept if item.identity in allowed)
        self._values, self._values_pointer = kept, pointer

    def _read_count(self, value: Json, pointer: str) -> None:
        name = pointer.rpartition("/")[2]
        self._counts[name] = _count(value, pointer, name)

    def _read_bound(self, value: Json, pointer: str) -> None:
        name = pointer.rpartition("/")[2]
        if self._dialect is Dialect.DRAFT_04 and name in BOOLEAN_BOUNDS:
            if not isinstance(value, bool):
                raise InvalidSchema(pointer, f"{name} of draft-04 must be a boolean")
            return
        number = exact_number(value, pointer, name)
        if number is None:
            raise InvalidSchema(pointer, f"{name} must be a number")
        is_strict = name in BOOLEAN_BOUNDS
        if self._dialect is Dialect.DRAFT_04:
            is_strict = self._value.get("exclusive" + name[0].upper() + name[1:]) is True
        is_lower = name.lower().endswith("minimum")
        self._bounds.append(Bound(number, is_lower, is_strict, is_integer=isinstance(value, int)))

    def _read_properties(self, value: Json, pointer: str) -> None:
        self._own_place = len(self._applicators)
        for name, schema in _object(value, pointer).items():
            self._fields[name] = self._child(schema, child(pointer, name))

    def _read_required(self, value: Json, pointer: str) -> None:
        if not isinstance(value, list):
            raise InvalidSchema(pointer, "required must be an array of names")
        for at, name in enumerate(value):
            if not isinstance(name, str):
                raise InvalidSchema(child(pointer, at), "required must be an array of names")
        self._required = tuple(dict.fromkeys(cast("list[str]", value)))

    def _read_additional_properties(self, value: Json, pointer: str) -> None:
        self._additional = self._child(value, pointer)

    def _read_items(self, value: Json, pointer: str) -> None:
        if not isinstance(value, list):
            self._tail = self._child(value, pointer)
        elif self._dialect > Dialect.DRAFT_2019_09:
            raise InvalidSchema(pointer, "items must be a schema: 2020-12 states positions with prefixItems")
        else:
            self._prefix = self._children(value, pointer)

    def _read_prefix_items(self, value: Json, pointer: str) -> None:
        self._prefix = self._children(_schemas(value, pointer, "prefixItems"), pointer)

    def _read_additional_items(self, value: Json, pointer: str) -> None:
        # Beside an `items` that is one schema, or none, additionalItems does nothing.
        if isinstance(self._value.get("items"), list):
            self._tail = self._child(value, pointer)

    def _read_applicator(self, value: Json, pointer: str) -> None:
        name = pointer.rpartition("/")[2]
        kinds: dict[str, Literal["all", "any", "one"]] = {"allOf": "all", "anyOf": "any", "oneOf": "one"}
        members = self._children(_schemas(value, pointer, name), pointer)
        self._applicators.append(Applicator(kinds[name], pointer, members))

    def _children(self, schemas: list[Json], pointer: str) -> tuple[str, ...]:
        return tuple(self._child(schema, child(pointer, at)) for at, schema in enumerate(schemas))


BOOLEAN_BOUNDS = ("exclusiveMinimum", "exclusiveMaximum")

READERS: dict[str, Callable[[NodeReader, Json, str], None]] = {
    "$schema": NodeReader._read_schema_uri,
    "id": NodeReader._read_id,
    "$id": NodeReader._read_id,
    "definitions": NodeReader._read_definitions,
    "$defs": NodeReader._read_definitions,
    "$ref": NodeReader._read_ref,
    "type": NodeReader._read_type,
    "enum": NodeReader._read_enum,
    "const": NodeReader._read_const,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), NodeReader._read_count),
    **dict.fromkeys(("minimum", "maximum", *BOOLEAN_BOUNDS), NodeReader._read_bound),
    "properties": NodeReader._read_properties,
    "required": NodeReader._read_required,
    "additionalProperties": NodeReader._read_additional_properties,
    "items": NodeReader._read_items,
    "prefixItems": NodeReader._read_prefix_items,
    "additionalItems": NodeReader._read_additional_items,
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), NodeReader._read_applicator),
}


def _object(value: Json, pointer: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise InvalidSchema(pointer, f"{pointer.rpartition('/')[2]} must be an object")
    return value


def _schemas(value: Json, pointer: str, name: str) -> list[Json]:
    if not isinstance(value, list) or not value:
        raise InvalidSchema(pointer, f"{name} must be an array of at least one schema")
    return value


def _count(value: Json, pointer: str, name: str) -> int:
    number = exact_number(value, pointer, name)
    if number is None or number.denominator != 1 or number < 0:
        raise InvalidSchema(pointer, f"{name} must be an integer that is not negative")
    if number > REPEAT_BOUND:
        raise LimitExceeded("repeat_bound", REPEAT_BOUND, int(number), pointer)
    return int(number)


def _string(value: Json, pointer: str) -> None:
    if not isinstance(value, str):
        raise InvalidSchema(pointer, f"{pointer.rpartition('/')[2]} must be a string")


def _count_shape(value: Json, pointer: str) -> None:
    _count(value, pointer, pointer.rpartition("/")[2])


def _positive(value: Json, pointer: str) -> None:
    name = pointer.rpartition("/")[2]
    number = exact_number(value, pointer, name)
    if number is None or number <= Fraction(0):
        raise InvalidSchema(pointer, f"{name} must be a number above 0")


def _object_shape(value: Json, pointer: str) -> None:
    _object(value, pointer)


SHAPES: dict[str, Callable[[Json, str], None]] = {
    **dict.fromkeys(("pattern", "format"), _string),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count_shape),
    **dict.fromkeys(("patternProperties", "dependentRequired", "dependentSchemas", "dependencies"), _object_shape),
    "multipleOf": _positive,
}
"""What the value of a refused keyword must be: a malformed one is reported as that."""
