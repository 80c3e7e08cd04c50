"""What a subschema does not admit, stated as nodes: each way to miss one of its keywords is an option (JSX-3).

not {type: T, pattern: p}  ->  any of: the other types; strings of T that p does not match
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from ninfer_vllm.automata.algebra import complement
from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import UnsupportedSchema
from ninfer_vllm.languages.json_schema.literals import Constant, Value, constant_of
from ninfer_vllm.languages.json_schema.names import ANY_VALUE, NO_VALUE, derived, negated, place
from ninfer_vllm.languages.json_schema.schema import (
    ALL_TYPES,
    Applicator,
    Containment,
    Length,
    Node,
    Pattern,
    Presence,
    Schema,
    Type,
)

NUMBERS: frozenset[Type] = frozenset(("integer", "fraction"))
STRINGS: frozenset[Type] = frozenset(("string",))
ARRAYS: frozenset[Type] = frozenset(("array",))
OBJECTS: frozenset[Type] = frozenset(("object",))
FREE = Node("")

PAIR_STEPS = 30
"""Steps of a derived node."""


def negation(schema: Schema, name: str) -> Node:
    """The node of a negated name, its options added to the schema.

    Errors: UnsupportedSchema at a keyword whose opposite is not regular.
    """
    node = schema.nodes[negated(name)]
    writer = _Writer(schema, node)
    options = tuple(writer.options())
    return Node(name, applicators=(Applicator("any", name, options),) if options else (), types=_types(options))


def _types(options: tuple[str, ...]) -> frozenset[Type]:
    return ALL_TYPES if options else frozenset()


class _Writer:
    """Adds the options of one negation as derived nodes."""

    def __init__(self, schema: Schema, node: Node) -> None:
        self._schema = schema
        self._node = node
        self._num_derived = 0

    def options(self) -> Iterator[str]:
        """The names of the options."""
        node = self._node
        if node.types != ALL_TYPES:
            yield self._add(replace(FREE, types=ALL_TYPES - node.types))
        if node.values is not None:
            yield self._differing(node.values)
        for part in (*self._scalars(), *self._arrays(), *self._objects()):
            types = part.types & node.types
            if types:
                yield self._add(replace(part, types=types))
        for applicator in node.applicators:
            yield from self._applied(applicator)
        if node.unevaluated_items is not None or node.unevaluated_properties is not None:
            raise self._refused(node.pointer, "unevaluatedProperties and unevaluatedItems")

    def _scalars(self) -> Iterator[Node]:
        node = self._node
        for length in _outside(node.characters):
            yield Node("", STRINGS, characters=length)
        for pattern in node.patterns:
            yield Node("", STRINGS, patterns=(opposite(pattern),))
        for bound in node.bounds:
            other = replace(bound, is_lower=not bound.is_lower, is_strict=not bound.is_strict)
            yield Node("", NUMBERS, bounds=(other,))
        for divisor in node.divisors:
            yield Node("", NUMBERS, divisors=(replace(divisor, is_negated=not divisor.is_negated),))

    def _arrays(self) -> Iterator[Node]:
        node = self._node
        for length in _outside(node.items):
            yield Node("", ARRAYS, items=length)
        for at, name in enumerate(node.prefix):
            yield Node("", ARRAYS, items=Length(at + 1), prefix=(*(ANY_VALUE,) * at, negated(name)))
        if node.tail is not None:
            other = Containment(negated(node.tail), Length(1), len(node.prefix), node.tail)
            yield Node("", ARRAYS, contains=(other,))
        for containment in node.contains:
            for length in _outside(containment.count):
                yield Node("", ARRAYS, contains=(replace(containment, count=length),))
        if node.unique is not None:
            raise self._refused(node.unique, "uniqueItems")

    def _objects(self) -> Iterator[Node]:
        node = self._node
        for name, below in node.fields.items():
            yield Node("", OBJECTS, fields={name: negated(below)}, required=(name,))
        for name in node.required:
            yield Node("", OBJECTS, fields={name: NO_VALUE})
        for length in _outside(node.members):
            yield Node("", OBJECTS, members=length)
        for pattern, below in node.patterned:
            yield self._present((pattern,), (), ANY_VALUE, negated(below), pattern.pointer)
        if node.additional is not None:
            others = tuple(opposite(pattern) for pattern, _ in node.patterned)
            yield self._present(others, tuple(node.fields), ANY_VALUE, negated(node.additional), node.additional)
        if node.names is not None:
            yield self._present((), (), negated(node.names), ANY_VALUE, node.names)
        if node.present:
            raise self._refused(node.present[0].pointer, "this keyword")

    def _present(
        self, patterns: tuple[Pattern, ...], but: tuple[str, ...], key_name: str, name: str, pointer: str
    ) -> Node:
        return Node("", OBJECTS, present=(Presence(patterns, but, key_name, name, place(pointer)),))

    def _applied(self, applicator: Applicator) -> Iterator[str]:
        none = tuple(map(negated, applicator.members))
        if applicator.kind == "all":
            yield from none
            return
        yield self._all(none)
        if applicator.kind == "one":
            for pair in combinations(applicator.members, 2):
                spend(PAIR_STEPS)
                yield self._all(pair)

    def _all(self, names: tuple[str, ...]) -> str:
        return self._add(Node("", applicators=(Applicator("all", self._node.pointer, names),)))

    def _differing(self, values: tuple[Constant, ...]) -> str:
        """None of the values: scalars are excluded at once, others one by one."""
        scalars = tuple(item for item in values if not isinstance(item.value, tuple | dict))
        parts = [self._add(replace(FREE, excluded=scalars))] if scalars else []
        parts += [self._unlike(item.value) for item in values if isinstance(item.value, tuple | dict)]
        return self._all(tuple(parts))

    def _unlike(self, value: tuple[Value, ...] | dict[str, Value]) -> str:
        """Everything but one array or object."""
        if isinstance(value, tuple):
            parts = [replace(FREE, types=ALL_TYPES - ARRAYS)]
            parts += [Node("", ARRAYS, items=length) for length in _outside(Length(len(value), len(value)))]
            for at, item in enumerate(value):
                prefix = (*(ANY_VALUE,) * at, self._not_value(item))
                parts.append(Node("", ARRAYS, items=Length(at + 1), prefix=prefix))
        else:
            parts = [replace(FREE, types=ALL_TYPES - OBJECTS)]
            for name, member in value.items():
                parts.append(Node("", OBJECTS, fields={name: NO_VALUE}))
                parts.append(Node("", OBJECTS, fields={name: self._not_value(member)}, required=(name,)))
            other = Presence((), tuple(value), ANY_VALUE, ANY_VALUE, place(self._node.values_pointer))
            parts.append(Node("", OBJECTS, present=(other,)))
        options = tuple(self._add(part) for part in parts)
        # Each choice has a pointer of its own: a choice met twice is one choice.
        where = derived(f"unlike{self._num_derived}", self._node.pointer)
        return self._add(Node("", applicators=(Applicator("any", where, options),)))

    def _not_value(self, value: Value) -> str:
        item = constant_of(value)
        pointer = self._node.values_pointer
        node = Node("", values=(item,), values_pointer=pointer, identities=frozenset((item.identity,)))
        return negated(self._add(node))

    def _add(self, node: Node) -> str:
        name = derived(f"not{self._num_derived}", self._node.pointer)
        self._num_derived += 1
        self._schema.nodes[name] = replace(node, pointer=name)
        return name

    def _refused(self, pointer: str, keyword: str) -> UnsupportedSchema:
        reason = f"the opposite of {keyword} is not supported, but not, if or oneOf asks for it: state what is allowed"
        return UnsupportedSchema(place(pointer), "not", reason)


def opposite(pattern: Pattern) -> Pattern:
    """The strings that a pattern does not accept."""
    return Pattern(("not", pattern.name), complement(pattern.automaton), pattern.pointer)


def _outside(length: Length) -> Iterator[Length]:
    """The counts that a length does not allow."""
    if length.minimum > 0:
        yield Length(0, length.minimum - 1)
    if length.maximum is not None:
        yield Length(length.maximum + 1)


def node_of(schema: Schema, name: str) -> Node:
    """The node of a name; that of a negation is made when it is first asked for."""
    if name not in schema.nodes:
        schema.nodes[name] = negation(schema, name)
    return schema.nodes[name]
