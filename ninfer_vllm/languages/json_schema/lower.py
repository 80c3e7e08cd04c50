"""From reduced keys to grammar rules: one rule a reduced object or array, shared rules for everything plain."""

from __future__ import annotations

import re

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.checks import count_nodes
from ninfer_vllm.grammar.ir import (
    NOTHING,
    Expr,
    Grammar,
    Regular,
    Repeat,
    Rule,
    alternation,
    text,
    walk,
)
from ninfer_vllm.languages.json_schema.arrays import array_text
from ninfer_vllm.languages.json_schema.emptiness import is_inhabited, max_items
from ninfer_vllm.languages.json_schema.intersect import Reducer
from ninfer_vllm.languages.json_schema.literals import Value, spell
from ninfer_vllm.languages.json_schema.numbers import ANY_NUMBER, integer_automaton, number_automaton
from ninfer_vllm.languages.json_schema.objects import Member, object_text
from ninfer_vllm.languages.json_schema.shapes import (
    ANY,
    ANY_ARRAY,
    ANY_INTEGER,
    ANY_OBJECT,
    ANY_STRING,
    Array,
    Finite,
    Integers,
    Key,
    Numbers,
    Object,
    Shape,
    Strings,
)
from ninfer_vllm.languages.json_schema.strings import QUOTE, all_but, character, patterned
from ninfer_vllm.languages.json_schema.tokens import COMPACT, FLEXIBLE, Tokens, joined, white_space
from ninfer_vllm.limits import GRAMMAR_NODES

ROOT = "root"
"""The start rule; no rule refers to it."""

INLINE_VALUES = 4
"""Values of an enum that are written where they are used; more get a rule."""

NAME_CHARS = 24
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")
ANY_SHAPES = frozenset((ANY_OBJECT, ANY_ARRAY, ANY_STRING, ANY_NUMBER))


class Lowering:
    """Collects the rules that the asked values need."""

    def __init__(self, options: JsonOptions) -> None:
        self._tokens: Tokens = FLEXIBLE if options.whitespace == "flexible" else COMPACT
        self._rules: dict[str, Expr] = {}
        self._names: dict[object, str] = {}
        self._todo: list[tuple[str, tuple[Shape, ...]]] = []
        self._num_nodes = 0

    def any_object(self) -> Grammar:
        """The grammar of every JSON object."""
        return self._grammar(self._plain("object"))

    def schema(self, reducer: Reducer, inhabited: frozenset[Key]) -> Grammar:
        """The grammar of a schema whose root has a value.

        Errors: LimitExceeded beyond `GRAMMAR_NODES` expressions or the limits of automata.
        """
        self._reducer, self._inhabited = reducer, inhabited
        start = self._value(reducer.root)
        while self._todo:
            name, shapes = self._todo.pop()
            self._rules[name] = alternation(*(self._shape(shape, name) for shape in shapes))
            self._check_size(self._rules[name])
        grammar = self._grammar(start)
        count_nodes(grammar)
        return grammar

    def _grammar(self, start: Expr) -> Grammar:
        if self._tokens is FLEXIBLE:
            self._rules["space"] = Regular(white_space())
        return Grammar({ROOT: start, **self._rules}, ROOT)

    def _value(self, key: Key) -> Expr:
        """The texts of a key: written in place where they are plain, otherwise a rule of their own."""
        if key == ANY:
            return self._plain("value")
        shapes = tuple(shape for shape in self._reducer.reduce(key).shapes if is_inhabited(shape, self._inhabited))
        values = tuple(dict.fromkeys(value for shape in shapes if isinstance(shape, Finite) for value in shape.values))
        others: tuple[Shape, ...] = tuple(shape for shape in shapes if not isinstance(shape, Finite))
        if ANY_SHAPES.issubset(others) and {value.spelling for value in values} >= {"null", "true", "false"}:
            return self._plain("value")
        if values:
            others = (*others, Finite(values))
        if all(self._is_plain(shape) for shape in others):
            return alternation(*(self._shape(shape, _name(key)) for shape in others))
        if others not in self._names:
            self._names[others] = self._fresh(_name(key))
            self._todo.append((self._names[others], others))
        return Rule(self._names[others])

    def _is_plain(self, shape: Shape) -> bool:
        if isinstance(shape, Finite):
            return len(shape.values) <= INLINE_VALUES
        return not isinstance(shape, Array | Object) or shape in (ANY_ARRAY, ANY_OBJECT)

    def _shape(self, shape: Shape, name: str) -> Expr:
        if isinstance(shape, Finite):
            return alternation(*(self._constant(item.value) for item in shape.values))
        if isinstance(shape, Object):
            return self._plain("object") if shape == ANY_OBJECT else self._object(shape, name)
        if isinstance(shape, Array):
            return self._plain("array") if shape == ANY_ARRAY else self._array(shape)
        if isinstance(shape, Strings):
            return self._plain("string") if shape == ANY_STRING else self._string(shape, name)
        if isinstance(shape, Integers):
            return self._plain("integer") if shape == ANY_INTEGER else self._interval(shape)
        return self._plain("number") if shape == ANY_NUMBER else self._interval(shape)

    def _object(self, shape: Object, name: str) -> Expr:
        members = [
            Member(self._member_text(self._constant(field.name), field.key), field.is_required)
            for field in shape.fields
            if field.key in self._inhabited or field.key == ANY
        ]
        other = None
        if shape.additional == ANY or shape.additional in self._inhabited:
            other = self._other_member(frozenset(field.name for field in shape.fields), shape.additional, name)
        return object_text(members, other, self._tokens, lambda part, expr: self._share(f"{name}_{part}", expr))

    def _other_member(self, declared: frozenset[str], key: Key, name: str) -> Expr:
        if not declared:
            return self._plain("member") if key == ANY else self._member(self._plain("string"), key, name)
        return self._member(joined(QUOTE, self._share("key", Regular(all_but(sorted(declared)))), QUOTE), key, name)

    def _member(self, name_text: Expr, key: Key, name: str) -> Expr:
        return self._share(f"{name}_other", self._member_text(name_text, key))

    def _member_text(self, name_text: Expr, key: Key) -> Expr:
        return joined(name_text, self._tokens.between(":"), self._value(key))

    def _array(self, shape: Array) -> Expr:
        length = (shape.length.minimum, max_items(shape, self._inhabited))
        return array_text(
            lambda at: self._value(shape.position(at)), len(shape.prefix), length, self._tokens, self._share
        )

    def _string(self, shape: Strings, name: str) -> Expr:
        if shape.patterns:
            return joined(QUOTE, self._share(name, Regular(patterned(shape, shape.patterns[0].pointer))), QUOTE)
        counted = Repeat(self._plain("character"), shape.length.minimum, shape.length.maximum)
        return self._share("string", joined(QUOTE, counted, QUOTE))

    def _interval(self, shape: Integers | Numbers) -> Expr:
        if shape not in self._names:
            whole = isinstance(shape, Integers)
            self._names[shape] = self._fresh("integer" if whole else "number")
            automaton = integer_automaton(shape) if isinstance(shape, Integers) else number_automaton(shape)
            self._rules[self._names[shape]] = Regular(automaton)
        return Rule(self._names[shape])

    def _constant(self, value: Value) -> Expr:
        """The spelling of a value, white space at its structural places."""
        if self._tokens is COMPACT or not isinstance(value, tuple | dict):
            return text(spell(value))
        brackets = "[]" if isinstance(value, tuple) else "{}"
        if not value:
            return self._tokens.empty(brackets)
        parts: list[Expr] = []
        for part in value:
            parts.append(self._tokens.between(",") if parts else self._tokens.opening(brackets[0]))
            parts.append(self._constant(part))
            if isinstance(value, dict) and isinstance(part, str):
                parts.append(joined(self._tokens.between(":"), self._constant(value[part])))
        return joined(*parts, self._tokens.closing(brackets[1]))

    def _plain(self, name: str) -> Rule:
        """A rule of plain JSON, made when it is first needed."""
        if name not in self._rules:
            self._rules[name] = NOTHING
            self._rules[name] = self._plain_body(name)
        return Rule(name)

    def _plain_body(self, name: str) -> Expr:
        if name == "value":
            words = (text(word) for word in ("true", "false", "null"))
            return alternation(*map(self._plain, ("object", "array", "string", "number")), *words)
        if name == "object":
            return object_text([], self._plain("member"), self._tokens, self._share)
        if name == "member":
            return joined(self._plain("string"), self._tokens.between(":"), self._plain("value"))
        if name == "array":
            return array_text(lambda _: self._plain("value"), 0, (0, None), self._tokens, self._share)
        if name == "string":
            return joined(QUOTE, Repeat(self._plain("character"), 0, None), QUOTE)
        if name == "character":
            return character()
        return Regular(integer_automaton(ANY_INTEGER) if name == "integer" else number_automaton(ANY_NUMBER))

    def _share(self, name: str, expr: Expr) -> Expr:
        """The rule of an expression; equal expressions have one rule."""
        if expr not in self._names:
            self._names[expr] = self._fresh(name)
            self._rules[self._names[expr]] = expr
        return Rule(self._names[expr])

    def _fresh(self, name: str) -> str:
        return f"{name}_{len(self._names)}"

    def _check_size(self, rule: Expr) -> None:
        """Stops a grammar that grows too large while it grows."""
        self._num_nodes += sum(1 for _ in walk(rule))
        if self._num_nodes > GRAMMAR_NODES:
            raise LimitExceeded("grammar_nodes", GRAMMAR_NODES, self._num_nodes)


def _name(key: Key) -> str:
    """A rule name that reminds of the subschema's place."""
    last = key[0].rpartition("/")[2] if key else ""
    return NOT_IN_NAMES.sub("_", last)[:NAME_CHARS].strip("_").lower() or "node"
