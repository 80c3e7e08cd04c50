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
from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import ConstraintError, LimitExceeded, UnsupportedSchema
from ninfer_vllm.languages.json_schema.branches import Branch, Expander
from ninfer_vllm.languages.json_schema.facts import BOOLEANS, FREE, NULL, shapes_of
from ninfer_vllm.languages.json_schema.located import located
from ninfer_vllm.languages.json_schema.names import place
from ninfer_vllm.languages.json_schema.object_facts import key_of
from ninfer_vllm.languages.json_schema.parse import ROOT
from ninfer_vllm.languages.json_schema.refusals import Report, at_once
from ninfer_vllm.languages.json_schema.schema import Schema, Type
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
from ninfer_vllm.limits import GRAMMAR_NODES

PROOF_DEPTH = 8
"""Members inside members that are compared to prove two branches of oneOf exclusive."""

PAIR_STEPS = 2
"""Steps of comparing two branches."""

UNKNOWN = Reduced((*FREE.values(), Finite((NULL, *BOOLEANS))))
"""What stands for a key that is refused."""


class Overlap(Exception):
    """Some members of the oneOf at a pointer have a value in common, as far as is known."""

    def __init__(self, pointer: str) -> None:
        super().__init__(pointer)
        self.pointer = pointer


class Reducer:
    """Reduces the keys of one schema; every result is kept."""

    def __init__(self, schema: Schema, report: Report = at_once) -> None:
        self._schema = schema
        self._report = report
        self._expander = Expander(schema)
        self._reduced: dict[Key, Reduced] = {}
        self._unproved: dict[Key, Reduced] = {}
        self._texts: dict[Key, Dfa | None] = {}
        self._shapes: dict[tuple[frozenset[Type], Key], Reduced] = {}
        self._subtracting: set[str] = set()
        self._num_parts = 0
        self.root: Key = key_of(schema, (ROOT,))
        """The key of the whole document."""

    def reduce(self, key: Key) -> Reduced:
        """The shapes that the subschemas of a key have in common.

        Refused, by the `report` given: UnsupportedSchema where the branches of a oneOf are not proved exclusive and
        cannot be subtracted, or no number can be written; LimitExceeded beyond `INTERSECTIONS` merges,
        `NESTING_DEPTH` references or the budget of work.
        """
        while key not in self._reduced:
            try:
                with located(place(key[0]) if key else ROOT):
                    self._reduced[key] = self._united(key, self._check_exclusive, self._report)
            except Overlap as overlap:
                self._subtract(overlap)
            except ConstraintError as problem:
                self._report(problem)
                self._reduced[key] = UNKNOWN
        return self._reduced[key]

    def _subtract(self, overlap: Overlap) -> None:
        """From now on, each member of a oneOf excludes the others that it may have a value in common with."""
        where = overlap.pointer
        if where in self._subtracting:
            reason = "whether the members overlap depends on the oneOf itself: take its own reference out of it"
            raise UnsupportedSchema(place(where), "oneOf", reason)
        self._subtracting.add(where)
        members = self._expander.exclusive[where]
        pairs = {frozenset((one, other)) for one, other in combinations(range(len(members)), 2)}
        apart = {pair for pair in pairs if self._may_overlap(*(members[at] for at in pair))}
        self._subtracting.remove(where)
        self._expander.keep_apart(where, apart)
        for known in (self._unproved, self._reduced, self._texts, self._shapes):
            known.clear()

    def _may_overlap(self, one: str, other: str) -> bool:
        """Whether two subschemas may have a value in common, wherever they stand."""
        while True:
            try:
                shapes = self._reduce_unproved(key_of(self._schema, (one, other))).shapes
                return not all(self._is_void(shape, PROOF_DEPTH) for shape in shapes)
            except Overlap as overlap:
                self._subtract(overlap)
            except UnsupportedSchema:
                return True

    def texts(self, key: Key) -> Dfa:
        """The strings that a key admits.

        Errors: UnsupportedSchema where they depend on themselves.
        """
        if key not in self._texts:
            self._texts[key] = None
            try:
                # An overlap is not settled here: whoever asks has to begin anew as well.
                shapes = self._united(key, self._check_exclusive, at_once).shapes
                self._texts[key] = reduce(union, map(_texts_of, shapes), NO_TEXT)
            except (Overlap, ConstraintError):
                del self._texts[key]
                raise
        found = self._texts[key]
        if found is None:
            raise UnsupportedSchema(
                place(key[0]),
                "propertyNames",
                "the keys are described by the object itself: describe them in a subschema of their own",
            )
        return found

    def _reduce_unproved(self, key: Key) -> Reduced:
        """Like `reduce`, with oneOf read as anyOf: where even that is empty, nothing is in common."""
        if key not in self._unproved:
            self._unproved[key] = self._united(key, lambda _branches, _pointer: None, at_once)
        return self._unproved[key]

    def _united(self, key: Key, check: Callable[[list[Branch], str], None], report: Report) -> Reduced:
        pointer = place(key[0]) if key else ROOT
        expansion = self._expander.expand(key)
        parts = []
        for branch in expansion.branches:
            parts.append(self._shapes_of(branch, pointer, report))
            num_parts = 1 + sum(1 for shape in parts[-1].shapes for _ in keys_below(shape))
            spend(num_parts)
            self._num_parts += num_parts
            if self._num_parts > GRAMMAR_NODES:
                raise LimitExceeded("grammar_nodes", GRAMMAR_NODES, self._num_parts, pointer)
        if len(parts) == 1 and parts[0].shapes:
            return parts[0]
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

    def _shapes_of(self, branch: Branch, pointer: str, report: Report) -> Reduced:
        """The shapes of a branch; many keys have the same one, such as all that refer to one definition."""
        known = branch.types, branch.facts
        if known not in self._shapes:
            found = shapes_of(self._schema, branch, pointer, self.texts, report)
            if not found.shapes:
                return found
            self._shapes[known] = found
        return self._shapes[known]

    def _check_exclusive(self, branches: list[Branch], pointer: str) -> None:
        """That every two branches which differ in a oneOf have no value in common (JSC-2)."""
        exclusive = self._expander.exclusive
        branches = [branch for branch in branches if any(where in exclusive for where, _ in branch.choices)]
        chosen = [{where: at for where, at in branch.choices if where in exclusive} for branch in branches]
        for at, right in enumerate(branches):
            spend(PAIR_STEPS * at)
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
