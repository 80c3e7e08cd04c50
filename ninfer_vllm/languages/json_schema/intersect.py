"""Conjunctions of subschemas reduced to unions of shapes, memoised by the subschemas (JSC-1 to JSC-5).

What holds for one value is a key: the subschemas that apply to it at once. What a shape says about members and items is
again a key, so that a recursive schema is a finite graph of keys.

The branches of a oneOf that are not proved exclusive are subtracted from each other, which begins the reduction anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import combinations

from ninfer_vllm.automata.algebra import ANY_TEXT, NO_TEXT, finite, union
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.errors import LimitExceeded, UnsupportedSchema
from ninfer_vllm.languages.json_schema.branches import Branch, Expander
from ninfer_vllm.languages.json_schema.facts import shapes_of
from ninfer_vllm.languages.json_schema.names import place
from ninfer_vllm.languages.json_schema.object_facts import key_of
from ninfer_vllm.languages.json_schema.parse import ROOT
from ninfer_vllm.languages.json_schema.schema import Schema
from ninfer_vllm.languages.json_schema.shapes import (
    ANY_STRING,
    Finite,
    Key,
    Reduced,
    Shape,
    Strings,
    keys_below,
    keys_needed,
)
from ninfer_vllm.languages.json_schema.strings import decoded
from ninfer_vllm.limits import GRAMMAR_NODES, REGULAR_STATES

PROOF_DEPTH = 8
"""Members inside members that are compared to prove two branches of oneOf exclusive."""

INTERSECTION_COST = 256
"""What the intersection of two patterns counts for, in states: it takes as long as many of them."""


class Overlap(Exception):
    """Some members of the oneOf at a pointer have a value in common, as far as is known."""

    def __init__(self, pointer: str) -> None:
        super().__init__(pointer)
        self.pointer = pointer


class Reducer:
    """Reduces the keys of one schema; every result is kept."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._expander = Expander(schema)
        self._reduced: dict[Key, Reduced] = {}
        self._unproved: dict[Key, Reduced] = {}
        self._texts: dict[Key, Dfa | None] = {}
        self._num_parts = 0
        self._counted: dict[Shape, int] = {}
        self.root: Key = key_of(schema, (ROOT,))
        """The key of the whole document."""

    def reduce(self, key: Key) -> Reduced:
        """The shapes that the subschemas of a key have in common.

        Errors: UnsupportedSchema where the branches of a oneOf are not proved exclusive and cannot be subtracted, or no
        number can be written; LimitExceeded beyond `INTERSECTIONS` merges or `NESTING_DEPTH` references.
        """
        while key not in self._reduced:
            try:
                self._reduced[key] = self._united(key, self._check_exclusive)
            except Overlap as overlap:
                self._subtract(overlap)
        return self._reduced[key]

    def _subtract(self, overlap: Overlap) -> None:
        """From now on, each member of a oneOf excludes the others that it may have a value in common with."""
        members = self._expander.exclusive[overlap.pointer]
        pairs = {frozenset((one, other)) for one, other in combinations(range(len(members)), 2)}
        apart = {pair for pair in pairs if self._may_overlap(*(members[at] for at in pair))}
        self._expander.keep_apart(overlap.pointer, apart)
        self._unproved.clear()
        self._reduced.clear()

    def _may_overlap(self, one: str, other: str) -> bool:
        """Whether two subschemas may have a value in common, wherever they stand."""
        try:
            shapes = self._reduce_unproved(key_of(self._schema, (one, other))).shapes
            return not all(self._is_void(shape, PROOF_DEPTH) for shape in shapes)
        except UnsupportedSchema:
            return True

    def texts(self, key: Key) -> Dfa:
        """The strings that a key admits.

        Errors: UnsupportedSchema where they depend on themselves.
        """
        if key not in self._texts:
            self._texts[key] = None
            parts = [_texts_of(shape) for shape in self._reduce_unproved(key).shapes]
            self._texts[key] = reduce(union, parts, NO_TEXT)
        found = self._texts[key]
        if found is None:
            raise UnsupportedSchema(place(key[0]), "propertyNames", "the keys are described by the object itself")
        return found

    def _reduce_unproved(self, key: Key) -> Reduced:
        """Like `reduce`, with oneOf read as anyOf: where even that is empty, nothing is in common."""
        if key not in self._unproved:
            self._unproved[key] = self._united(key, lambda _branches, _pointer: None)
        return self._unproved[key]

    def _united(self, key: Key, check: Callable[[list[Branch], str], None]) -> Reduced:
        pointer = place(key[0]) if key else ROOT
        expansion = self._expander.expand(key)
        parts = []
        for branch in expansion.branches:
            parts.append(shapes_of(self._schema, branch, pointer, self.texts))
            self._num_parts += 1 + sum(1 for shape in parts[-1].shapes for _ in keys_below(shape))
            if self._num_parts > GRAMMAR_NODES:
                raise LimitExceeded("grammar_nodes", GRAMMAR_NODES, self._num_parts, pointer)
            self._count_states(parts[-1].shapes)
        check([branch for branch, part in zip(expansion.branches, parts, strict=True) if part.shapes], pointer)
        shapes = tuple(dict.fromkeys(shape for part in parts for shape in part.shapes))
        if shapes:
            return Reduced(shapes)
        if not parts and expansion.cycle is not None:
            return Reduced((), expansion.cycle, "the reference leads back to itself: no finite value exists")
        if len(parts) == 1:
            return parts[0]
        reasons = "; ".join(dict.fromkeys(part.reason for part in parts if part.reason))
        return Reduced((), pointer, reasons or "no value is allowed: the keywords contradict each other")

    def _count_states(self, shapes: tuple[Shape, ...]) -> None:
        """Bounds the work on automata of one schema, which takes seconds for as many states as one may have."""
        for shape in shapes:
            if isinstance(shape, Strings) and shape.patterns and shape not in self._counted:
                pointer = shape.patterns[0].pointer
                joins = INTERSECTION_COST * (len(shape.patterns) - 1)
                self._counted[shape] = joins + len(decoded(shape, pointer).edges)
                total = sum(self._counted.values())
                if total > REGULAR_STATES:
                    raise LimitExceeded("regular_states", REGULAR_STATES, total, pointer)

    def _check_exclusive(self, branches: list[Branch], pointer: str) -> None:
        """That every two branches which differ in a oneOf have no value in common (JSC-2)."""
        exclusive = self._expander.exclusive
        branches = [branch for branch in branches if any(where in exclusive for where, _ in branch.choices)]
        chosen = [{where: at for where, at in branch.choices if where in exclusive} for branch in branches]
        for at, right in enumerate(branches):
            for other, left in enumerate(branches[:at]):
                clashes = [
                    (where, chosen[other][where], chosen[at][where])
                    for where in chosen[at]
                    if _differs(chosen[other], chosen[at], where)
                ]
                is_apart = any(self._expander.is_apart(*clash) for clash in clashes)
                if clashes and not is_apart and not self._is_disjoint(left, right, pointer):
                    raise Overlap(clashes[0][0])

    def _is_disjoint(self, left: Branch, right: Branch, pointer: str) -> bool:
        if not left.types & right.types:
            return True
        both = self._expander.merged(replace(left, choices=()), replace(right, choices=()), pointer)
        try:
            return both is None or all(
                self._is_void(shape, PROOF_DEPTH) for shape in shapes_of(self._schema, both, pointer, self.texts).shapes
            )
        except UnsupportedSchema:
            # Numbers that exist but cannot be written: the branches do have something in common.
            return False

    def _is_void(self, shape: Shape, depth: int) -> bool:
        """Whether a shape provably has no value, because something that it needs has none."""
        return depth > 0 and any(
            all(self._is_void(below, depth - 1) for below in self._reduce_unproved(key).shapes)
            for key in keys_needed(shape)
            if key
        )


def _texts_of(shape: Shape) -> Dfa:
    if isinstance(shape, Finite):
        return finite(item.value for item in shape.values if isinstance(item.value, str))
    if not isinstance(shape, Strings):
        return NO_TEXT
    if shape == ANY_STRING:
        return ANY_TEXT
    return decoded(shape, shape.patterns[0].pointer if shape.patterns else "")


def _differs(left: dict[str, int], right: dict[str, int], where: str) -> bool:
    return left.get(where, right[where]) != right[where]
