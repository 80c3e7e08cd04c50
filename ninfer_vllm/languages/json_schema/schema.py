"""The tree of a parsed schema: one node a subschema, each with its own assertions and its applicators."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.languages.json_schema.literals import Constant

Type = Literal["null", "boolean", "integer", "fraction", "string", "array", "object"]
"""`fraction` stands for every number however it is spelled; it never occurs without `integer`."""

ALL_TYPES: frozenset[Type] = frozenset(("null", "boolean", "integer", "fraction", "string", "array", "object"))
TYPE_NAMES: dict[str, frozenset[Type]] = {
    "null": frozenset(("null",)),
    "boolean": frozenset(("boolean",)),
    "integer": frozenset(("integer",)),
    "number": frozenset(("integer", "fraction")),
    "string": frozenset(("string",)),
    "array": frozenset(("array",)),
    "object": frozenset(("object",)),
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower or upper limit of numbers."""

    value: Fraction
    is_lower: bool
    is_strict: bool
    is_integer: bool
    """Written as a plain integer, which parsers keep exactly; any other bound they read as binary64."""

    def admits(self, number: Fraction) -> bool:
        """Whether the number lies on the allowed side."""
        if number == self.value:
            return not self.is_strict
        return (number > self.value) == self.is_lower


@dataclass(frozen=True, slots=True)
class Length:
    """How many characters or items: at least `minimum`, at most `maximum` (None is without bound)."""

    minimum: int = 0
    maximum: int | None = None

    def __and__(self, other: Length) -> Length:
        maxima = [bound for bound in (self.maximum, other.maximum) if bound is not None]
        return Length(max(self.minimum, other.minimum), min(maxima, default=None))

    @property
    def is_empty(self) -> bool:
        """Whether no count is allowed."""
        return self.maximum is not None and self.maximum < self.minimum

    def admits(self, count: int) -> bool:
        """Whether the count is allowed."""
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)


ANY_LENGTH = Length()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A set of strings as an automaton over their characters, and the keyword that stated it."""

    pointer: str
    automaton: Dfa


@dataclass(frozen=True, slots=True)
class Applicator:
    """Subschemas that apply to the same value: all of them, any of them or exactly one."""

    kind: Literal["all", "any", "one"]
    pointer: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One subschema, known by its JSON Pointer; subschemas are pointers too, so recursion needs no cycle."""

    pointer: str
    types: frozenset[Type] = ALL_TYPES
    values: tuple[Constant, ...] | None = None
    """The values of const or enum; None without either."""
    values_pointer: str = ""
    identities: frozenset[Hashable] = frozenset()
    """Of `values`, for the question whether one of them is equal."""
    characters: Length = ANY_LENGTH
    patterns: tuple[Pattern, ...] = ()
    bounds: tuple[Bound, ...] = ()
    items: Length = ANY_LENGTH
    prefix: tuple[str, ...] = ()
    tail: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    additional: str | None = None
    required: tuple[str, ...] = ()
    applicators: tuple[Applicator, ...] = ()
    own_place: int = 0
    """How many applicators are written before the properties: fields are declared in reading order."""

    @property
    def is_trivial(self) -> bool:
        """Whether every value is admitted."""
        return not self.asserts and not self.applicators and self.types == ALL_TYPES

    @property
    def asserts(self) -> bool:
        """Whether the node's own keywords say more than its types."""
        return (
            self.values is not None
            or self.characters != ANY_LENGTH
            or self.items != ANY_LENGTH
            or bool(self.patterns or self.bounds or self.prefix or self.fields or self.required)
            or self.tail is not None
            or self.additional is not None
        )


@dataclass(frozen=True, slots=True)
class Schema:
    """All subschemas that the root reaches."""

    nodes: dict[str, Node]
