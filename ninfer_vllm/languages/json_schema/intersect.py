"""Conjunctions of subschemas reduced to unions of shapes, memoised by the subschemas (JSC-1 to JSC-5).

What holds for one value is a key: the subschemas that apply to it at once. What a shape says about members and items is
again a key, so that a recursive schema is a finite graph of keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ninfer_vllm.errors import LimitExceeded, UnsupportedSchema
from ninfer_vllm.languages.json_schema.branches import Branch, Expander
from ninfer_vllm.languages.json_schema.facts import key_of, shapes_of
from ninfer_vllm.languages.json_schema.parse import ROOT
from ninfer_vllm.languages.json_schema.schema import Schema
from ninfer_vllm.languages.json_schema.shapes import Key, Reduced, Shape, keys_below, keys_needed
from ninfer_vllm.limits import GRAMMAR_NODES

PROOF_DEPTH = 8
"""Members inside members that are compared to prove two branches of oneOf exclusive."""


class Reducer:
    """Reduces the keys of one schema; every result is kept."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._expander = Expander(schema)
        self._reduced: dict[Key, Reduced] = {}
        self._unproved: dict[Key, Reduced] = {}
        self._num_parts = 0
        self.root: Key = key_of(schema, (ROOT,))
        """The key of the whole document."""

    def reduce(self, key: Key) -> Reduced:
        """The shapes that the subschemas of a key have in common.

        Errors: UnsupportedSchema where the branches of a oneOf are not proved exclusive or no number can be written;
        LimitExceeded beyond `INTERSECTIONS` merges or `NESTING_DEPTH` references.
        """
        if key not in self._reduced:
            self._reduced[key] = self._united(key, self._check_exclusive)
        return self._reduced[key]

    def _reduce_unproved(self, key: Key) -> Reduced:
        """Like `reduce`, with oneOf read as anyOf: where even that is empty, nothing is in common."""
        if key not in self._unproved:
            self._unproved[key] = self._united(key, lambda _branches, _pointer: None)
        return self._unproved[key]

    def _united(self, key: Key, check: Callable[[list[Branch], str], None]) -> Reduced:
        pointer = key[0] if key else ROOT
        expansion = self._expander.expand(key)
        parts = []
        for branch in expansion.branches:
            parts.append(shapes_of(self._schema, branch, pointer))
            self._num_parts += 1 + sum(1 for shape in parts[-1].shapes for _ in keys_below(shape))
            if self._num_parts > GRAMMAR_NODES:
                raise LimitExceeded("grammar_nodes", GRAMMAR_NODES, self._num_parts, pointer)
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

    def _check_exclusive(self, branches: list[Branch], pointer: str) -> None:
        """That every two branches which differ in a oneOf have no value in common (JSC-2)."""
        exclusive = self._expander.exclusive
        branches = [branch for branch in branches if any(place in exclusive for place, _ in branch.choices)]
        chosen = [{place: at for place, at in branch.choices if place in exclusive} for branch in branches]
        for at, right in enumerate(branches):
            for other, left in enumerate(branches[:at]):
                clash = next((place for place in chosen[at] if _differs(chosen[other], chosen[at], place)), None)
                if clash is not None and not self._is_disjoint(left, right, pointer):
                    raise _not_exclusive(clash, chosen[other][clash], chosen[at][clash])

    def _is_disjoint(self, left: Branch, right: Branch, pointer: str) -> bool:
        if not left.types & right.types:
            return True
        both = self._expander.merged(replace(left, choices=()), replace(right, choices=()), pointer)
        try:
            return both is None or all(
                self._is_void(shape, PROOF_DEPTH) for shape in shapes_of(self._schema, both, pointer).shapes
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


def _differs(left: dict[str, int], right: dict[str, int], place: str) -> bool:
    return left.get(place, right[place]) != right[place]


def _not_exclusive(pointer: str, one: int, other: int) -> UnsupportedSchema:
    return UnsupportedSchema(
        pointer,
        "oneOf",
        f"branches {one} and {other} of oneOf are not known to exclude each other: give them different types, values, "
        "or a common required property with different constants; or use anyOf",
    )
