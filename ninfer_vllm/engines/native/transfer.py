"""A parse situation of one automaton, found again in another automaton of the same grammar."""

from __future__ import annotations

from ninfer_vllm.engines.native.automaton import Automaton
from ninfer_vllm.engines.native.kinds import ACCEPT, END


def transferred(state: int, source: Automaton, target: Automaton) -> int:
    """The state of `target` for a state of `source`; costs what the situation itself holds, not how it came about.

    Invariant: a position is made after the one behind it, and a stack after those below it, so that numbers ascend from
    what is needed to what needs it.
    """
    stacks = _stacks_below({stack for _, stack in source.configs[state]}, source)
    frames = [frame for stack in stacks for frame in source.stacks.frames[stack]]
    wanted = {position for position, _ in source.configs[state]} | {frame[0] for frame in frames}
    positions = {END: END, ACCEPT: ACCEPT}
    for position in _positions_behind(wanted, source):
        after = positions[source.positions.parts[position][-1]]
        positions[position] = target.positions.adopted(source.positions, position, after)
    moved = {-1: -1}
    for stack in stacks:
        target.count(1)
        old = source.stacks.frames[stack]
        new = ((positions[at], width, low, high, moved[below]) for at, width, low, high, below in old)
        moved[stack] = target.stacks.intern(sorted(new))
    return target.state({positions[position]: moved[stack] for position, stack in source.configs[state]})


def _stacks_below(stacks: set[int], source: Automaton) -> list[int]:
    """The stacks and all below them, in the order they were made."""
    todo = list(stacks)
    while todo:
        for frame in source.stacks.frames[todo.pop()]:
            below = frame[4]
            if below >= 0 and below not in stacks:
                stacks.add(below)
                todo.append(below)
    return sorted(stacks)


def _positions_behind(positions: set[int], source: Automaton) -> list[int]:
    """The positions and all behind them, in the order they were made, without the two that all automata have."""
    found = set()
    todo = list(positions)
    while todo:
        position = todo.pop()
        if position not in found and position not in (END, ACCEPT):
            found.add(position)
            todo.append(source.positions.parts[position][-1])
    return sorted(found)
