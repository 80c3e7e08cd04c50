"""Arrays whose items are counted by kind: the states that an array can be in after so many items (JSX-8).

A state is the index, the number of items so far, and how many of them each `contains` has counted, all of them only as
far as they still matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.languages.json_schema.names import place
from ninfer_vllm.languages.json_schema.schema import Length
from ninfer_vllm.languages.json_schema.shapes import Array, Key
from ninfer_vllm.limits import COUNT_STATES


@dataclass(frozen=True, slots=True)
class ItemState:
    """What still matters of the items read."""

    index: int
    length: int
    counts: tuple[int, ...]


def start_state(shape: Array) -> ItemState:
    """Nothing read."""
    return ItemState(0, 0, (0,) * len(shape.contains))


def next_items(shape: Array, state: ItemState) -> Iterator[tuple[Key, ItemState]]:
    """What may come next, each with the state behind it."""
    length = _capped(state.length + 1, shape.length)
    if length is None:
        return
    index = min(state.index + 1, shape.num_positions)
    for key, held in shape.item_classes(state.index):
        counts = [
            _capped(count + holds, containment.count)
            for count, holds, containment in zip(state.counts, held, shape.contains, strict=True)
        ]
        if None not in counts:
            yield key, ItemState(index, length, tuple(count for count in counts if count is not None))


def may_end(shape: Array, state: ItemState) -> bool:
    """Whether the array may end in a state."""
    counted = zip(state.counts, shape.contains, strict=True)
    return state.length >= shape.length.minimum and all(count >= one.count.minimum for count, one in counted)


def live_states(shape: Array, inhabited: Set[Key]) -> dict[ItemState, list[tuple[Key, ItemState]]]:
    """The states from which the array can still end, with what may come next in each.

    Errors: LimitExceeded beyond `COUNT_STATES`.
    """
    found: dict[ItemState, list[tuple[Key, ItemState]]] = {}
    todo = [start_state(shape)]
    while todo:
        state = todo.pop()
        if state in found:
            continue
        if len(found) >= COUNT_STATES:
            raise LimitExceeded("count_states", COUNT_STATES, pointer=place(shape.contains[0].pointer))
        found[state] = [(key, after) for key, after in next_items(shape, state) if key in inhabited]
        todo.extend(after for _, after in found[state])
    live = _leading_to({state for state in found if may_end(shape, state)}, found)
    return {
        state: [(key, after) for key, after in items if after in live]
        for state, items in found.items()
        if state in live
    }


def _leading_to(ends: set[ItemState], items: dict[ItemState, list[tuple[Key, ItemState]]]) -> set[ItemState]:
    """The states from which some items lead to one of the ends."""
    before: dict[ItemState, list[ItemState]] = {}
    for state, following in items.items():
        for _, after in following:
            before.setdefault(after, []).append(state)
    live, todo = set(ends), list(ends)
    while todo:
        for state in before.get(todo.pop(), ()):
            if state not in live:
                live.add(state)
                todo.append(state)
    return live


def has_items(shape: Array, inhabited: Set[Key]) -> bool:
    """Whether the array has a value, given the keys that have one."""
    return start_state(shape) in live_states(shape, inhabited)


def _capped(count: int, allowed: Length) -> int | None:
    """The count as far as it matters; None where it is too great."""
    if allowed.maximum is None:
        return min(count, allowed.minimum)
    return count if count <= allowed.maximum else None
