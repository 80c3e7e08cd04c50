"""From reduced keys to grammar rules: one rule a reduced object or array, shared rules for everything plain."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable

from ninfer_vllm.automata.algebra import difference, finite
from ninfer_vllm.automata.work import spend
from ninfer_vllm.constraint import PropertyOrder
from ninfer_vllm.errors import ConstraintError, LimitExceeded, UnsupportedSchema
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
from ninfer_vllm.grammar.merge import merged
from ninfer_vllm.languages.json_schema.arrays import array_text, unique_array_text
from ninfer_vllm.languages.json_schema.emptiness import is_inhabited, max_items
from ninfer_vllm.languages.json_schema.intersect import Reducer
from ninfer_vllm.languages.json_schema.item_counts import ItemState, live_states, may_end, start_state
from ninfer_vllm.languages.json_schema.listing import listed_values
from ninfer_vllm.languages.json_schema.literals import Value, spell
from ninfer_vllm.languages.json_schema.located import located
from ninfer_vllm.languages.json_schema.names import place
from ninfer_vllm.languages.json_schema.numbers import ANY_NUMBER, interval_automaton
from ninfer_vllm.languages.json_schema.objects import Member, any_order_object_text, counted_object_text, object_text
from ninfer_vllm.languages.json_schema.parse import ROOT as ROOT_POINTER
from ninfer_vllm.languages.json_schema.refusals import Report, at_once
from ninfer_vllm.languages.json_schema.schema import ANY_LENGTH
from ninfer_vllm.languages.json_schema.shapes import (
    ANY,
    ANY_ARRAY,
    ANY_INTEGER,
    ANY_OBJECT,
    ANY_STRING,
    Array,
    Decimals,
    Field,
    Finite,
    Integers,
    Key,
    Numbers,
    Object,
    Others,
    Shape,
    Strings,
)
from ninfer_vllm.languages.json_schema.strings import QUOTE, all_but, character, patterned, spelled
from ninfer_vllm.languages.json_schema.tokens import COMPACT, FLEXIBLE, UNMARKED, Tokens, joined, white_space
from ninfer_vllm.limits import GRAMMAR_NODES

ROOT = "root"
"""The start rule; no rule refers to it."""

INLINE_VALUES = 4
"""Values of an enum that are written where they are used; more get a rule."""

NODE_STEPS = 8
"""Steps of writing one expression of a rule."""

NAME_CHARS = 24
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")
ANY_SHAPES = frozenset((ANY_OBJECT, ANY_ARRAY, ANY_STRING, ANY_NUMBER))


class Lowering:
    """Collects the rules that the asked values need."""

    def __init__(self, tokens: Tokens, report: Report = at_once, property_order: PropertyOrder = "declared") -> None:
        self._tokens = tokens
        self._report = report
        self._property_order = property_order
        self._rules: dict[str, Expr] = {}
        self._names: dict[object, str] = {}
        self._values: dict[Key, Expr] = {}
        self._shared: dict[int, Expr] = {}
        self._texts: dict[Strings, Expr] = {}
        self._todo: list[tuple[str, str, tuple[Shape, ...]]] = []
        self._num_nodes = 0
        self._may_repeat = False
        """Whether a value has several arrays or several objects, which may be one and the same."""

    def any_object(self) -> Grammar:
        """The grammar of every JSON object."""
        return self._grammar(self._plain("object"))

    def schema(self, reducer: Reducer, inhabited: frozenset[Key]) -> Grammar:
        """The grammar of a schema whose root has a value.

        Refused, by the `report` given: UnsupportedSchema for items that uniqueItems cannot tell apart; LimitExceeded
        beyond `GRAMMAR_NODES` expressions, the limits of automata or the budget of work.
        """
        self._reducer, self._inhabited = reducer, inhabited
        return self._finished(self._value(reducer.root))

    def members(
        self, reducer: Reducer, inhabited: frozenset[Key], shape: Object, member_text: Callable[[Field], Expr]
    ) -> Grammar:
        """The grammar of a closed object's members one behind the other, without braces and commas.

        `member_text` writes one of them, with `text_of` for values that it writes as JSON.

        Errors: as `schema`.
        """
        self._reducer, self._inhabited = reducer, inhabited
        members = [
            Member(member_text(field), field.is_required) for field in shape.fields if field.key in self._inhabited
        ]
        if shape.count == ANY_LENGTH:
            return self._finished(object_text(members, None, UNMARKED, self._share))
        return self._finished(counted_object_text(members, None, [], shape.count, UNMARKED, self._share))

    def text_of(self, shapes: tuple[Shape, ...]) -> Expr:
        """The JSON texts of shapes that `members` writes."""
        return alternation(*(self._shape(shape, "member") for shape in shapes))

    def _finished(self, start: Expr) -> Grammar:
        while self._todo:
            name, pointer, shapes = self._todo.pop()
            with located(pointer):
                self._rules[name] = alternation(*(self._shape(shape, name) for shape in shapes))
            self._check_size(self._rules[name])
        grammar = self._grammar(start)
        count_nodes(grammar)
        return merged(grammar) if self._may_repeat else grammar

    def _grammar(self, start: Expr) -> Grammar:
        if self._tokens is FLEXIBLE:
            self._rules["space"] = Regular(white_space())
        return Grammar({ROOT: start, **self._rules}, ROOT)

    def _value(self, key: Key) -> Expr:
        """The texts of a key: written in place where they are plain, otherwise a rule of their own."""
        if key not in self._values:
            with located(place(key[0]) if key else ROOT_POINTER):
                self._values[key] = self._plain("value") if key == ANY else self._value_of(key)
        return self._values[key]

    def _value_of(self, key: Key) -> Expr:
        """Keys with one and the same tuple of shapes, which the reducer keeps, have one expression."""
        reduced = self._reducer.reduce(key).shapes
        if id(reduced) not in self._shared:
            self._shared[id(reduced)] = self._new_value(key, reduced)
        return self._shared[id(reduced)]

    def _new_value(self, key: Key, reduced: tuple[Shape, ...]) -> Expr:
        shapes = tuple(shape for shape in reduced if is_inhabited(shape, self._inhabited))
        values = tuple(dict.fromkeys(value for shape in shapes if isinstance(shape, Finite) for value in shape.values))
        others: tuple[Shape, ...] = tuple(shape for shape in shapes if not isinstance(shape, Finite))
        if ANY_SHAPES.issubset(others) and {value.spelling for value in values} >= {"null", "true", "false"}:
            return self._plain("value")
        if values:
            others = (*others, Finite(values))
        if all(self._is_plain(shape) for shape in others):
            return alternation(*(self._shape(shape, _name(key)) for shape in others))
        if others not in self._names:
            kinds = [type(shape) for shape in others if isinstance(shape, Array | Object)]
            self._may_repeat = self._may_repeat or len(kinds) > len(set(kinds))
            self._names[others] = self._fresh(_name(key))
            self._todo.append((self._names[others], place(key[0]), others))
        return Rule(self._names[others])

    def _is_plain(self, shape: Shape) -> bool:
        if isinstance(shape, Finite):
            return len(shape.values) <= INLINE_VALUES
        return not isinstance(shape, Array | Object) or shape in (ANY_ARRAY, ANY_OBJECT)

    def _shape(self, shape: Shape, name: str) -> Expr:
        try:
            return self._written(shape, name)
        except ConstraintError as problem:
            self._report(problem)
            return NOTHING

    def _written(self, shape: Shape, name: str) -> Expr:
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
            if field.key in self._inhabited
        ]
        declared = frozenset(field.name for field in shape.fields)
        others = [self._other_member(declared, other, name) for other in shape.others if other.key in self._inhabited]
        other = alternation(*others) if others else None
        share = lambda part, expr: self._share(f"{name}_{part}", expr)  # noqa: E731
        is_ordered = self._property_order == "declared" or len(members) < 2
        if is_ordered and shape.count == ANY_LENGTH and not shape.witnesses:
            return object_text(members, other, self._tokens, share)
        write = counted_object_text if is_ordered else any_order_object_text
        witnesses = [self._other_member(declared, witness, name) for witness in shape.witnesses]
        return write(members, other, witnesses, shape.count, self._tokens, share)

    def _other_member(self, declared: frozenset[str], other: Others, name: str) -> Expr:
        if other.keys is not None:
            # Classes of keys leave out the declared ones where those could be among them.
            automaton = difference(other.keys.automaton, finite(sorted(declared)))
            keys = joined(QUOTE, self._share("key", Regular(spelled(automaton))), QUOTE)
            return self._member(keys, other.key, name)
        if not declared:
            return self._plain("member") if other.key == ANY else self._member(self._plain("string"), other.key, name)
        keys = joined(QUOTE, self._share("key", Regular(all_but(sorted(declared)))), QUOTE)
        return self._member(keys, other.key, name)

    def _member(self, name_text: Expr, key: Key, name: str) -> Expr:
        return self._share(f"{name}_other", self._member_text(name_text, key))

    def _member_text(self, name_text: Expr, key: Key) -> Expr:
        return joined(name_text, self._tokens.between(":"), self._value(key))

    def _array(self, shape: Array) -> Expr:
        if shape.contains:
            return self._counted_array(shape)
        length = (shape.length.minimum, max_items(shape, self._inhabited))
        if shape.unique is not None and length[1] not in (0, 1):
            return self._unique_array(shape, length, shape.unique)
        return array_text(
            lambda at: self._value(shape.position(at)), len(shape.prefix), length, self._tokens, self._share
        )

    def _counted_array(self, shape: Array) -> Expr:
        if shape.unique is not None:
            raise UnsupportedSchema(
                shape.unique,
                "uniqueItems",
                "uniqueItems beside contains is not supported: check one of them after parsing",
            )
        states = live_states(shape, self._inhabited)
        for state in states:
            self._names[shape, state] = self._fresh("items")
        for state, items in states.items():
            loops = [self._item(key) for key, after in items if after == state]
            ends = [joined(self._item(key), self._state(shape, after)) for key, after in items if after != state]
            if may_end(shape, state):
                ends.insert(0, self._tokens.closing("]"))
            body = alternation(*ends)
            self._rules[self._names[shape, state]] = (
                joined(Repeat(alternation(*loops), 0, None), body) if loops else body
            )
        start = start_state(shape)
        options = [joined(self._value(key), self._state(shape, after)) for key, after in states[start]]
        filled = joined(self._tokens.opening("["), alternation(*options)) if options else NOTHING
        return alternation(self._tokens.empty("[]"), filled) if may_end(shape, start) else filled

    def _item(self, key: Key) -> Expr:
        return joined(self._tokens.between(","), self._value(key))

    def _state(self, shape: Array, state: ItemState) -> Rule:
        return Rule(self._names[shape, state])

    def _unique_array(self, shape: Array, length: tuple[int, int | None], pointer: str) -> Expr:
        def values_at(at: int) -> list[tuple[Hashable, Expr]]:
            values = listed_values(self._reducer.reduce(shape.position(at)).shapes, pointer)
            return [(item.identity, self._constant(item.value)) for item in values]

        found = unique_array_text(values_at, length, self._tokens, self._share, pointer)
        if found == NOTHING:
            raise UnsupportedSchema(
                pointer, "uniqueItems", "there are fewer different items than minItems asks for: lower minItems"
            )
        return found

    def _string(self, shape: Strings, name: str) -> Expr:
        if shape.patterns:
            if shape not in self._texts:
                automaton = patterned(shape, shape.patterns[0].pointer)
                self._texts[shape] = joined(QUOTE, self._share(name, Regular(automaton)), QUOTE)
            return self._texts[shape]
        counted = Repeat(self._plain("character"), shape.length.minimum, shape.length.maximum)
        return self._share("string", joined(QUOTE, counted, QUOTE))

    def _interval(self, shape: Integers | Numbers | Decimals) -> Expr:
        if shape not in self._names:
            self._names[shape] = self._fresh("integer" if isinstance(shape, Integers) else "number")
            self._rules[self._names[shape]] = Regular(interval_automaton(shape))
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
        return Regular(interval_automaton(ANY_INTEGER if name == "integer" else ANY_NUMBER))

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
        num_nodes = sum(1 for _ in walk(rule))
        spend(NODE_STEPS * num_nodes)
        self._num_nodes += num_nodes
        if self._num_nodes > GRAMMAR_NODES:
            raise LimitExceeded("grammar_nodes", GRAMMAR_NODES, self._num_nodes)


def _name(key: Key) -> str:
    """A rule name that reminds of the subschema's place."""
    last = key[0].rpartition("/")[2] if key else ""
    return NOT_IN_NAMES.sub("_", last)[:NAME_CHARS].strip("_").lower() or "node"
