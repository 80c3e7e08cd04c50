"""What facts say about objects: members by name, and classes of keys that nobody declares (JST-2, JST-3, JSX-2).

Patterns cut the undeclared keys into classes; all keys of a class are under the same subschemas. A class of few keys
becomes optional fields, so that none of them repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations, islice, product

from ninfer_vllm.automata.algebra import ANY_TEXT, complement, finite, intersection, union
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.questions import num_texts, texts
from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import LimitExceeded, UnsupportedSchema
from ninfer_vllm.languages.json_schema.admits import member_names
from ninfer_vllm.languages.json_schema.names import ANY_VALUE, NO_VALUE, place
from ninfer_vllm.languages.json_schema.schema import ANY_LENGTH, Length, Node, Pattern, Presence, Schema
from ninfer_vllm.languages.json_schema.shapes import ANY, Field, Key, Object, Others, Shape
from ninfer_vllm.limits import KEY_CLASSES
from ninfer_vllm.spelling import child

LISTED_KEYS = 64
"""Keys of a class that are written out as fields."""

FIELD_STEPS = 4
"""Steps of one field of an object, besides those of what is said about it."""

NEVER: Key = (NO_VALUE,)
"""The key of a member that cannot be."""


def key_of(schema: Schema, names: Iterable[str]) -> Key:
    """The key of subschemas: each once, those that admit everything left out."""
    return tuple(name for name in dict.fromkeys(names) if not schema.is_trivial(name))


def object_shapes(schema: Schema, facts: list[Node], key_texts: Callable[[Key], Dfa]) -> list[Shape] | str:
    """The objects of some facts: one shape a way to have the members that must be present."""
    count = ANY_LENGTH
    for fact in facts:
        count = count & fact.members
    if count.is_empty:
        return "minProperties is above maxProperties"
    plain = _Builder(schema, facts, key_texts).object(count)
    presences = tuple(dict.fromkeys(presence for fact in facts for presence in fact.present))
    shapes: list[Shape] = []
    for choice in product(*(_ways(schema, presence, plain, key_texts) for presence in presences)):
        shape: Object | None = plain
        spend(FIELD_STEPS + len(plain.fields))
        for way in choice:
            shape = None if shape is None else _with(schema, shape, way)
        if shape is not None:
            _check_witnesses(shape, presences)
            shapes.append(shape)
    return [_checked(schema, shape, facts) for shape in shapes if isinstance(shape, Object)] or (
        "no member can be the one that must be present"
    )


class _Builder:
    """Collects the fields and the classes of undeclared keys."""

    def __init__(self, schema: Schema, facts: list[Node], key_texts: Callable[[Key], Dfa]) -> None:
        self._schema = schema
        self._facts = facts
        names = key_of(schema, (fact.names for fact in facts if fact.names is not None))
        self._keys = None if names == ANY else Pattern(("keys", names), key_texts(names), place(names[0]))

    def object(self, count: Length) -> Object:
        required = dict.fromkeys(name for fact in self._facts for name in fact.required)
        # A required name that nobody declares is written behind the declared ones, under additionalProperties.
        names = dict.fromkeys((*(name for fact in self._facts for name in fact.fields), *required))
        fields = [Field(name, self._of_name(name), name in required) for name in names]
        others = []
        for other in self._classes():
            listed = self._listed(other)
            if listed is None:
                others.append(other)
            else:
                fields += [Field(name, other.key, is_required=False) for name in listed if name not in names]
        return Object(tuple(fields), tuple(others), count)

    def _of_name(self, name: str) -> Key:
        spend(FIELD_STEPS + len(self._facts))
        if self._keys is not None and not self._keys.automaton.accepts(name):
            return NEVER
        return key_of(self._schema, (below for fact in self._facts for below in member_names(fact, name)))

    def _classes(self) -> list[Others]:
        """The undeclared keys by what holds for their values."""
        classes: list[_Class] = [(self._keys, ())]
        for fact in self._facts:
            for pattern, _ in fact.patterned:
                classes = list(_cut(classes, pattern))
                if len(classes) > KEY_CLASSES:
                    raise LimitExceeded("key_classes", KEY_CLASSES, len(classes), place(pattern.pointer))
        joined: dict[Key, list[Pattern | None]] = {}
        for keys, matched in classes:
            key = key_of(self._schema, self._below(frozenset(matched)))
            if all(self._schema.nodes[name].types for name in key if name in self._schema.nodes):
                joined.setdefault(key, []).append(keys)
        return [Others(_any_of(parts), key) for key, parts in joined.items()]

    def _below(self, matched: frozenset[Hashable]) -> Iterator[str]:
        for fact in self._facts:
            found = [below for pattern, below in fact.patterned if pattern.name in matched]
            yield from found
            if not found and fact.additional is not None:
                yield fact.additional

    def _listed(self, other: Others) -> list[str] | None:
        """The keys of a class of few."""
        if other.keys is None:
            return None
        num_keys = num_texts(other.keys.automaton, LISTED_KEYS + 1)
        if num_keys is None or num_keys > LISTED_KEYS:
            return None
        return list(islice(texts(other.keys.automaton), num_keys))


_Class = tuple[Pattern | None, tuple[Hashable, ...]]
"""Keys, and the names of the patterns that accept them."""


def _cut(classes: list[_Class], pattern: Pattern) -> Iterator[_Class]:
    """Each class in the part that a pattern accepts and the part that it does not."""
    for keys, matched in classes:
        inside = both(keys, pattern)
        if not inside.automaton.is_empty:
            yield inside, (*matched, pattern.name)
        outside = both(keys, Pattern(("not", pattern.name), complement(pattern.automaton), pattern.pointer))
        if not outside.automaton.is_empty:
            yield outside, matched


def _any_of(parts: list[Pattern | None]) -> Pattern | None:
    """The keys of several classes; a class of all keys is the only one."""
    first, *others = parts
    if first is None or not others:
        return first
    automaton, name = first.automaton, [first.name]
    for other in others:
        assert other is not None
        automaton = union(automaton, other.automaton)
        name.append(other.name)
    return Pattern(("or", *name), automaton, first.pointer)


def both(left: Pattern | None, right: Pattern) -> Pattern:
    """The strings that both accept."""
    if left is None or left.name == right.name:
        return right
    return Pattern(("and", left.name, right.name), intersection(left.automaton, right.automaton), right.pointer)


Way = tuple[str, Key] | Others
"""A field that must be there with a key besides its own, or a witness."""


def _ways(schema: Schema, presence: Presence, plain: Object, key_texts: Callable[[Key], Dfa]) -> list[Way]:
    """The members that can be the one that must be present."""
    keys = Pattern(("present", presence.key_name, presence.but), ANY_TEXT, presence.pointer)
    if presence.key_name != ANY_VALUE:
        keys = replace(keys, automaton=key_texts((presence.key_name,)))
    if presence.but:
        keys = replace(keys, automaton=intersection(keys.automaton, complement(finite(presence.but))))
    for pattern in presence.patterns:
        keys = both(keys, pattern)
    key = key_of(schema, (presence.name,))
    ways: list[Way] = [(field.name, key) for field in plain.fields if keys.automaton.accepts(field.name)]
    # A witness is a member that no field names.
    free = both(_except(field.name for field in plain.fields), keys) if plain.fields else keys
    for other in plain.others:
        inside = both(other.keys, free)
        if not inside.automaton.is_empty:
            ways.append(Others(inside, key_of(schema, (*other.key, *key))))
    return ways


def _except(names: Iterable[str]) -> Pattern:
    listed = tuple(names)
    return Pattern(("not", ("texts", *listed)), complement(finite(listed)))


def _with(schema: Schema, shape: Object, way: Way) -> Object:
    if isinstance(way, Others):
        return replace(shape, witnesses=(*shape.witnesses, way))
    name, key = way
    fields = tuple(
        replace(field, key=key_of(schema, (*field.key, *key)), is_required=True) if field.name == name else field
        for field in shape.fields
    )
    return replace(shape, fields=fields)


def _check_witnesses(shape: Object, presences: tuple[Presence, ...]) -> None:
    """Of two witnesses, the later one must not be able to take the place of the earlier one."""
    for left, right in combinations(shape.witnesses, 2):
        assert left.keys is not None
        assert right.keys is not None
        if not both(left.keys, right.keys).automaton.is_empty:
            reason = (
                "two members under keys that are not told apart would both have to be present: name the members, "
                "or state what is allowed instead of what is not"
            )
            raise UnsupportedSchema(presences[0].pointer, "not", reason)


def _checked(schema: Schema, shape: Object, facts: list[Node]) -> Object:
    """The shape, where a count of its members is a count of different keys (JSO-6)."""
    num_required = sum(1 for field in shape.fields if field.is_required)
    if shape.others and shape.count.minimum - num_required > 1:
        fact = next(fact for fact in facts if fact.members.minimum == shape.count.minimum)
        reason = "minProperties counts keys that nobody declares, and those may repeat: declare them, or require them"
        raise UnsupportedSchema(_count_pointer(fact), "minProperties", reason)
    if shape.count.minimum <= num_required:
        shape = replace(shape, count=Length(0, shape.count.maximum))
    is_bounded = not shape.others and not shape.witnesses and shape.count.maximum is not None
    if is_bounded and len(shape.fields) <= (shape.count.maximum or 0):
        shape = replace(shape, count=Length(shape.count.minimum))
    return shape


def _count_pointer(fact: Node) -> str:
    pointer = place(fact.pointer)
    return pointer if fact.pointer != pointer else child(pointer, "minProperties")
