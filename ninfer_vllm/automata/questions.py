"""Questions about the language of an automaton: equality, inclusion, finiteness, its texts, ways to acceptance."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ninfer_vllm.automata.algebra import difference, minimise
from ninfer_vllm.automata.dfa import Dfa


def equivalent(left: Dfa, right: Dfa) -> bool:
    """Whether both accept the same texts."""
    return minimise(left) == minimise(right)


def includes(outer: Dfa, inner: Dfa) -> bool:
    """Whether `outer` accepts every text of `inner`."""
    return difference(inner, outer).is_empty


def is_finite(automaton: Dfa) -> bool:
    """Whether the automaton accepts only finitely many texts."""
    return _in_order(automaton.trimmed()) is not None


def num_texts(automaton: Dfa, up_to: int | None = None) -> int | None:
    """How many texts the automaton accepts, counted no further than `up_to`; None where there is no end of them."""
    trimmed = automaton.trimmed()
    order = _in_order(trimmed)
    if order is None:
        return None
    counts = [0] * len(trimmed.edges)
    for state in reversed(order):
        counts[state] = int(state in trimmed.accepting)
        counts[state] += sum(len(chars) * counts[target] for chars, target in trimmed.edges[state])
        if up_to is not None:
            counts[state] = min(counts[state], up_to)
    return counts[0]


def texts(automaton: Dfa) -> Iterator[str]:
    """The accepted texts, shorter ones first, those of one length in the order of their codes."""
    trimmed = automaton.trimmed()
    if not trimmed.accepting:
        return
    queue = deque([("", 0)])
    while queue:
        text, state = queue.popleft()
        if state in trimmed.accepting:
            yield text
        steps = sorted((low, high, target) for chars, target in trimmed.edges[state] for low, high in chars.ranges)
        queue.extend((text + chr(code), target) for low, high, target in steps for code in range(low, high + 1))


def distances(automaton: Dfa) -> list[int | None]:
    """The least number of codes from each state to an accepting one; None where there is no way."""
    sources: list[list[int]] = [[] for _ in automaton.edges]
    for state, outgoing in enumerate(automaton.edges):
        for _, target in outgoing:
            sources[target].append(state)
    found: list[int | None] = [None] * len(automaton.edges)
    level, reached = 0, sorted(automaton.accepting)
    while reached:
        following = []
        for state in reached:
            if found[state] is None:
                found[state] = level
                following.extend(sources[state])
        level, reached = level + 1, following
    return found


def shortest_text(automaton: Dfa) -> str | None:
    """The shortest accepted text, of several the first in the order of codes; None where there is none."""
    left = distances(automaton)
    if left[0] is None:
        return None
    text, state = "", 0
    for remaining in range(left[0], 0, -1):
        code, state = min(
            (chars.ranges[0][0], target) for chars, target in automaton.edges[state] if left[target] == remaining - 1
        )
        text += chr(code)
    return text


def _in_order(automaton: Dfa) -> list[int] | None:
    """The states of a trimmed automaton, each before those it leads to; None where there is a cycle."""
    if not automaton.accepting:
        return []
    entering = [0] * len(automaton.edges)
    for outgoing in automaton.edges:
        for _, target in outgoing:
            entering[target] += 1
    order = [state for state, count in enumerate(entering) if not count]
    for state in order:  # grows while it is read
        for _, target in automaton.edges[state]:
            entering[target] -= 1
            if not entering[target]:
                order.append(target)
    return order if len(order) == len(automaton.edges) else None
