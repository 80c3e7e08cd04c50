"""Automata cut down to texts of certain lengths, counting only where the length is still open."""

from __future__ import annotations

from collections.abc import Iterator

from ninfer_vllm.automata.algebra import NO_TEXT, explore
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.questions import distances

FREE = -1
"""The count of a state behind which every text has an allowed length."""

Counted = tuple[int, int]
"""A state of the automaton, and the characters read as far as they matter."""


def limited(automaton: Dfa, minimum: int, maximum: int | None) -> Dfa:
    """The texts of an automaton with at least `minimum` and at most `maximum` characters; None is without bound.

    The result is trimmed but not minimal: of a minimal automaton, few of its states could be joined.

    Errors: LimitExceeded beyond `REGULAR_STATES` states.
    """
    trimmed = automaton.trimmed()
    if not trimmed.accepting:
        return NO_TEXT
    shortest = distances(trimmed)
    longest = longest_texts(trimmed)

    def counted(state: int, count: int) -> Counted | None:
        least, most = shortest[state], longest[state]
        assert least is not None
        if maximum is not None and count + least > maximum:
            return None
        if most is not None and count + most < minimum:
            return None
        is_short_enough = maximum is None or (most is not None and count + most <= maximum)
        if is_short_enough and count + least >= minimum:
            return state, FREE
        return state, min(count, minimum) if maximum is None else count

    def successors(where: Counted) -> Iterator[tuple[CharSet, Counted]]:
        state, count = where
        for chars, target in trimmed.edges[state]:
            after = (target, FREE) if count == FREE else counted(target, count + 1)
            if after is not None:
                yield chars, after

    def accepts(where: Counted) -> bool:
        return where[0] in trimmed.accepting and (where[1] == FREE or where[1] >= minimum)

    start = counted(0, 0)
    return NO_TEXT if start is None else explore(start, successors, accepts).trimmed()


def longest_texts(trimmed: Dfa) -> list[int | None]:
    """The greatest number of characters from each state to an accepting one; None where there is no end of them."""
    sources: list[list[int]] = [[] for _ in trimmed.edges]
    open_targets = [len(outgoing) for outgoing in trimmed.edges]
    for state, outgoing in enumerate(trimmed.edges):
        for _, target in outgoing:
            sources[target].append(state)
    found: list[int | None] = [None] * len(trimmed.edges)
    todo = [state for state, count in enumerate(open_targets) if not count]
    for state in todo:  # grows while it is read
        lengths = [found[target] for _, target in trimmed.edges[state]]
        found[state] = max((length + 1 for length in lengths if length is not None), default=0)
        for source in sources[state]:
            open_targets[source] -= 1
            if not open_targets[source]:
                todo.append(source)
    return found
