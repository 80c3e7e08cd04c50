"""The tree of a parsed schema: one node a subschema, each with its own assertions and its applicators."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.languages.json_schema.literals import Constant
from ninfer_vllm.languages.json_schema.names import ANY_VALUE, NO_VALUE, is_negated, negated

Type = Literal["null", "boolean", "integer", "fraction", "string", "array", "object"]
"""`fraction` stands for the numbers that are no integers."""

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
    """A set of strings as an automaton over their characters; patterns with equal names are equal sets."""

    name: Hashable
    automaton: Dfa = field(compare=False)
    pointer: str = field(default="", compare=False)
    """The keyword that stated it."""


@dataclass(frozen=True, slots=True)
class Divisor:
    """What a number is a multiple of, or is not."""

    value: Fraction
    is_negated: bool
    pointer: str = field(compare=False)

    def admits(self, number: Fraction) -> bool:
        """Whether the number is a multiple, or is none where that is asked."""
        return ((number / self.value).denominator == 1) != self.is_negated


@dataclass(frozen=True, slots=True)
class Containment:
    """How many items from an index on satisfy a subschema."""

    name: str
    count: Length
    start: int
    pointer: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Presence:
    """That some member has a key that all the patterns accept and that is none of `but`, and a certain value."""

    patterns: tuple[Pattern, ...]
    but: tuple[str, ...]
    key_name: str
    """The subschema that the key satisfies too."""
    name: str
    """The subschema that the value satisfies."""
    pointer: str = field(compare=False)


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
    excluded: tuple[Constant, ...] = ()
    """Scalars that are not admitted."""
    characters: Length = ANY_LENGTH
    patterns: tuple[Pattern, ...] = ()
    bounds: tuple[Bound, ...] = ()
    divisors: tuple[Divisor, ...] = ()
    items: Length = ANY_LENGTH
    prefix: tuple[str, ...] = ()
    tail: str | None = None
    contains: tuple[Containment, ...] = ()
    unique: str | None = None
    """The uniqueItems keyword that holds."""
    fields: dict[str, str] = field(default_factory=dict)
    patterned: tuple[tuple[Pattern, str], ...] = ()
    """Of patternProperties: keys, and what holds for their values."""
    additional: str | None = None
    names: str | None = None
    """What holds for every key."""
    members: Length = ANY_LENGTH
    required: tuple[str, ...] = ()
    present: tuple[Presence, ...] = ()
    unevaluated_items: str | None = None
    unevaluated_properties: str | None = None
    applicators: tuple[Applicator, ...] = ()
    own_place: int = 0
    """How many applicators are written before the properties: fields are declared in reading order."""

    @property
    def is_trivial(self) -> bool:
        """Whether every value is admitted."""
        is_closed = self.unevaluated_items is not None or self.unevaluated_properties is not None
        return not self.asserts and not self.applicators and self.types == ALL_TYPES and not is_closed

    @property
    def asserts(self) -> bool:
        """Whether the node's own keywords say more than its types."""
        return (
            bool(self.patterns or self.bounds or self.divisors or self.prefix or self.contains)
            or bool(self.fields or self.patterned or self.required or self.present or self.excluded)
            or any(length != ANY_LENGTH for length in (self.characters, self.items, self.members))
            or any(part is not None for part in (self.values, self.tail, self.unique, self.additional, self.names))
        )


@dataclass(frozen=True, slots=True)
class Schema:
    """All subschemas that the root reaches, by their names; derived ones are added while it is reduced."""

    nodes: dict[str, Node]

    def __post_init__(self) -> None:
        self.nodes[ANY_VALUE] = Node(ANY_VALUE)
        self.nodes[NO_VALUE] = Node(NO_VALUE, types=frozenset())

    def is_trivial(self, name: str) -> bool:
        """Whether the subschema plainly admits every value."""
        if is_negated(name):
            return not self.nodes[negated(name)].types
        return self.nodes[name].is_trivial
