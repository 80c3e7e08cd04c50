"""Closed object schemas member by member, for formats that frame members in their own way (TOOL-4, TOOL-9).

A member's strings and its other values are told apart, because such a format may carry strings as raw text. Automata
here read the texts themselves, not their JSON spelling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

from ninfer_vllm.automata.algebra import NO_TEXT, finite, intersection, union
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.expressions import fullmatch_dfa
from ninfer_vllm.automata.lengths import limited
from ninfer_vllm.automata.work import remembered
from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import LimitExceeded, UnsupportedSchema
from ninfer_vllm.grammar.ir import Expr, Grammar
from ninfer_vllm.languages.json_schema.document import Json
from ninfer_vllm.languages.json_schema.emptiness import blame, inhabited_keys, is_inhabited
from ninfer_vllm.languages.json_schema.intersect import Reducer
from ninfer_vllm.languages.json_schema.literals import Value, spell
from ninfer_vllm.languages.json_schema.lower import Lowering
from ninfer_vllm.languages.json_schema.names import place
from ninfer_vllm.languages.json_schema.numbers import interval_automaton
from ninfer_vllm.languages.json_schema.parse import ROOT, parse_document
from ninfer_vllm.languages.json_schema.schema import ANY_LENGTH, Schema
from ninfer_vllm.languages.json_schema.shapes import (
    Array,
    Decimals,
    Field,
    Finite,
    Integers,
    Key,
    Numbers,
    Object,
    Shape,
    Strings,
)
from ninfer_vllm.languages.json_schema.tokens import SPACED
from ninfer_vllm.limits import AUTOMATON_LENGTH
from ninfer_vllm.spelling import child

IN_BRACKETS = r"\[[^]*\]"
IN_BRACES = r"\{[^]*\}"
CACHED_STRINGS = 256
"""Automata of strings that are remembered: many parameters have the same, and a parser of unions asks at every call."""

SEVERAL_TYPES = ("const", "enum", "anyOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "type")
"""Keywords that can leave a root as something else than one object."""


@dataclass(frozen=True, slots=True, eq=False)
class MemberTexts:
    """What the values of one member are."""

    name: str
    pointer: str
    """The place of the member's schema."""
    strings: tuple[Strings, ...]
    constants: tuple[str, ...]
    """Strings that are listed one by one."""
    others: tuple[Shape, ...]
    """Values that are no strings."""

    @property
    def has_strings(self) -> bool:
        """Whether some value is a string."""
        return bool(self.strings or self.constants)

    def raw(self, allowed: Dfa) -> Dfa:
        """The strings among the allowed texts.

        Errors: LimitExceeded at the member's place.
        """
        try:
            return _raw(self.strings, self.constants, allowed)
        except LimitExceeded as error:
            raise replace(error, pointer=self.pointer) from None

    def is_apart(self, texts: Dfa) -> bool:
        """Whether no text is the JSON text of a value that is no string, arrays and objects taken by their brackets."""
        return all(_is_apart(shape, texts) for shape in self.others)


class ClosedObject:
    """An object schema that admits no undeclared member."""

    def __init__(self, schema: Schema, reducer: Reducer, inhabited: frozenset[Key], shape: Object) -> None:
        self._schema = schema
        self._reducer = reducer
        self._inhabited = inhabited
        self._shape = shape
        self.members = tuple(self._texts(field) for field in shape.fields if field.key in inhabited)
        """The members that can occur, in declared order."""

    @classmethod
    def of(cls, document: Json, options: JsonOptions) -> ClosedObject:
        """The object that a schema document describes.

        Errors: as `lower_json_schema`; UnsupportedSchema where the root is not one object, or is open.
        """
        schema, found = parse_document(document, options)
        if found:
            raise found[0]
        reducer = Reducer(schema)
        inhabited = inhabited_keys(reducer)
        if reducer.root not in inhabited:
            raise blame(reducer, inhabited)
        shapes = [shape for shape in reducer.reduce(reducer.root).shapes if is_inhabited(shape, inhabited)]
        if len(shapes) != 1 or not isinstance(shapes[0], Object):
            raise _no_object(document)
        if any(other.key in inhabited for other in (*shapes[0].others, *shapes[0].witnesses)):
            raise _open(document)
        return cls(schema, reducer, inhabited, shapes[0])

    def json(self) -> Grammar:
        """The objects as JSON, with a space behind each comma and colon."""
        return Lowering(SPACED).schema(self._reducer, self._inhabited)

    def framed(self, frame: Callable[[MemberTexts, Callable[[tuple[Shape, ...]], Expr]], Expr]) -> Grammar:
        """The members one behind the other, each as `frame` writes it; it is given a writer of JSON, spaced as well."""
        texts = {member.name: member for member in self.members}
        lowering = Lowering(SPACED)
        return lowering.members(
            self._reducer, self._inhabited, self._shape, lambda field: frame(texts[field.name], lowering.text_of)
        )

    def stated(self, text: str, member: MemberTexts) -> str:
        """The place of the const or enum that lists a string."""
        found = [
            place(node.values_pointer)
            for node in self._schema.nodes.values()
            if node.values is not None and any(item.value == text for item in node.values)
        ]
        inside = (pointer for pointer in found if pointer.startswith(child(member.pointer, "")))
        return next(inside, found[0] if found else member.pointer)

    def _texts(self, field: Field) -> MemberTexts:
        shapes = [shape for shape in self._reducer.reduce(field.key).shapes if is_inhabited(shape, self._inhabited)]
        strings: list[Strings] = []
        constants: list[str] = []
        others: list[Shape] = []
        for shape in shapes:
            if isinstance(shape, Strings):
                strings.append(shape)
            elif isinstance(shape, Finite):
                texts = [item.value for item in shape.values if isinstance(item.value, str)]
                constants += texts
                if len(texts) < len(shape.values):
                    others.append(Finite(tuple(item for item in shape.values if not isinstance(item.value, str))))
            else:
                others.append(shape)
        pointer = place(field.key[0]) if field.key else child(child(ROOT, "properties"), field.name)
        return MemberTexts(field.name, pointer, tuple(strings), tuple(dict.fromkeys(constants)), tuple(others))


def _no_object(document: Json) -> UnsupportedSchema:
    stated = document if isinstance(document, dict) else {}
    keyword = next((name for name in SEVERAL_TYPES if name in stated), "type")
    pointer = child(ROOT, keyword) if keyword in stated else ROOT
    return UnsupportedSchema(pointer, keyword, "the parameters of a strict tool must reduce to exactly one object")


def _open(document: Json) -> UnsupportedSchema:
    stated = document if isinstance(document, dict) else {}
    keyword = next(
        (name for name in ("additionalProperties", "unevaluatedProperties", "patternProperties") if stated.get(name)),
        "additionalProperties",
    )
    pointer = child(ROOT, keyword) if keyword in stated else ROOT
    reason = "the parameters of a strict tool must be closed: additionalProperties must be false"
    return UnsupportedSchema(pointer, keyword, reason)


@remembered(CACHED_STRINGS)
def _raw(strings: tuple[Strings, ...], constants: tuple[str, ...], allowed: Dfa) -> Dfa:
    parts = [_limited(shape, allowed) for shape in strings]
    if constants:
        parts.append(intersection(allowed, finite(sorted(constants))))
    return parts[0] if len(parts) == 1 else reduce(union, parts, NO_TEXT)


def _limited(shape: Strings, allowed: Dfa) -> Dfa:
    automaton = reduce(intersection, (pattern.automaton for pattern in shape.patterns), allowed)
    explicit = max(shape.length.minimum, shape.length.maximum or 0)
    if shape.length == ANY_LENGTH:
        return automaton
    if explicit > AUTOMATON_LENGTH:
        raise LimitExceeded("automaton_length", AUTOMATON_LENGTH, explicit)
    return limited(automaton, shape.length.minimum, shape.length.maximum)


def _is_apart(shape: Shape, texts: Dfa) -> bool:
    if isinstance(shape, Finite):
        return not any(texts.accepts(spaced(item.value)) for item in shape.values)
    if isinstance(shape, Integers | Numbers | Decimals):
        return intersection(texts, interval_automaton(shape)).is_empty
    return intersection(texts, fullmatch_dfa(IN_BRACKETS if isinstance(shape, Array) else IN_BRACES)).is_empty


def spaced(value: Value) -> str:
    """The JSON text of a value with a space behind each comma and colon."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(spaced, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(map("{}: {}".format, map(spell, value), map(spaced, value.values()))) + "}"
    return spell(value)
