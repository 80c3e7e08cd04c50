"""Which keys have a finite value, and where the fault lies when the root has none (JST-8)."""

from __future__ import annotations

from collections.abc import Set

from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import Unsatisfiable
from ninfer_vllm.languages.json_schema.intersect import Reducer
from ninfer_vllm.languages.json_schema.item_counts import has_items
from ninfer_vllm.languages.json_schema.names import place
from ninfer_vllm.languages.json_schema.shapes import ANY, Array, Key, Object, Shape, keys_below, keys_needed

SHAPE_STEPS = 4
"""Steps of asking a shape whether it has a value."""


def inhabited_keys(reducer: Reducer) -> frozenset[Key]:
    """The keys that can be met from the root and admit at least one finite value."""
    parents = _parents(reducer)
    inhabited: set[Key] = {ANY}
    todo = list(parents)
    while todo:
        key = todo.pop()
        if key not in inhabited and any(is_inhabited(shape, inhabited) for shape in reducer.reduce(key).shapes):
            inhabited.add(key)
            todo.extend(parents[key])
    return frozenset(inhabited)


def is_inhabited(shape: Shape, inhabited: Set[Key]) -> bool:
    """Whether a shape has a value, given the keys that have one."""
    spend(SHAPE_STEPS)
    if any(key not in inhabited for key in keys_needed(shape)):
        return False
    if isinstance(shape, Array) and shape.contains:
        return has_items(shape, inhabited)
    return not isinstance(shape, Object) or _has_members(shape, inhabited)


def _has_members(shape: Object, inhabited: Set[Key]) -> bool:
    """Whether as many members are possible as the count asks for."""
    spend(len(shape.fields) + len(shape.others))
    num_fields = sum(1 for field in shape.fields if field.key in inhabited)
    num_required = sum(1 for field in shape.fields if field.is_required) + len(shape.witnesses)
    is_open = any(other.key in inhabited for other in shape.others)
    has_enough = is_open or num_fields + len(shape.witnesses) >= shape.count.minimum
    return has_enough and (shape.count.maximum is None or num_required <= shape.count.maximum)


def max_items(shape: Array, inhabited: Set[Key]) -> int | None:
    """How many items an array can have: it ends before the first position that admits nothing."""
    for at in range(len(shape.prefix) + 1):
        if shape.position(at) not in inhabited:
            return at if shape.length.maximum is None else min(at, shape.length.maximum)
    return shape.length.maximum


def blame(reducer: Reducer, inhabited: Set[Key]) -> Unsatisfiable:
    """The error for a root without a value: down to the first required part that cannot be."""
    key = reducer.root
    pointer = place(key[0]) if key else ""
    reason = "no value is allowed"
    seen: set[Key] = set()
    while key not in seen:
        seen.add(key)
        reduced = reducer.reduce(key)
        if not reduced.shapes:
            return Unsatisfiable(reduced.reason or reason, reduced.pointer)
        needed = next((below for below in keys_needed(reduced.shapes[0]) if below not in inhabited), None)
        if needed is None:
            return Unsatisfiable("the counts of items or members leave no value", pointer)
        reason = _reason(reduced.shapes[0], needed)
        key = needed
        pointer = place(key[0])
    return Unsatisfiable("every value needs another one inside it: no finite value exists", pointer)


def _parents(reducer: Reducer) -> dict[Key, list[Key]]:
    """Every key that can be met from the root, with the keys that mention it."""
    parents: dict[Key, list[Key]] = {reducer.root: []}
    todo = [reducer.root]
    for key in todo:  # grows while it is read
        for shape in reducer.reduce(key).shapes:
            spend(SHAPE_STEPS)
            for below in keys_below(shape):
                spend(1)
                if below == ANY:
                    continue
                if below not in parents:
                    parents[below] = []
                    todo.append(below)
                parents[below].append(key)
    return parents


def _reason(shape: Shape, needed: Key) -> str:
    """Why a shape has no value where one of the keys that it needs has none."""
    fields = shape.fields if isinstance(shape, Object) else ()
    name = next((field.name for field in fields if field.is_required and field.key == needed), None)
    return "no value is allowed" if name is None else f"no value is allowed for {name!r}, which is required"
