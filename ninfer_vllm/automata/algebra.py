"""Set operations on languages: exploration, product, complement, minimisation, finite sets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from ninfer_vllm.automata.charset import ANY, CharSet, blocks
from ninfer_vllm.automata.dfa import Dfa, Edge
from ninfer_vllm.automata.minimal import Transition, coarsest
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.limits import AUTOMATON_STEPS, REGULAR_STATES

State = TypeVar("State", bound=Hashable)

Pair = tuple[int | None, int | None]
"""States of two automata that run at once; None is that of one that has rejected."""

ANY_TEXT = Dfa((((ANY, 0),),), frozenset((0,)))
NO_TEXT = Dfa(((),), frozenset())


def explore(
    start: State,
    successors: Callable[[State], Iterable[tuple[CharSet, State]]],
    accepts: Callable[[State], bool],
) -> Dfa:
    """The automaton whose states are the values reachable from `start`.

    `successors` yields disjoint character sets with the state they lead to; several sets may lead to one state.

    Errors: LimitExceeded beyond `REGULAR_STATES` states.
    """
    number: dict[State, int] = {start: 0}
    order = [start]
    edges: list[tuple[Edge, ...]] = []
    for state in order:  # grows while it is read
        targets: dict[int, list[CharSet]] = {}
        for chars, successor in successors(state):
            if successor not in number:
                number[successor] = len(order)
                order.append(successor)
            targets.setdefault(number[successor], []).append(chars)
        edges.append(tuple((_joined(sets), target) for target, sets in targets.items()))
        if len(order) > REGULAR_STATES:
            raise LimitExceeded("regular_states", REGULAR_STATES, len(order))
    return Dfa(tuple(edges), frozenset(at for at, state in enumerate(order) if accepts(state)))


def intersection(left: Dfa, right: Dfa) -> Dfa:
    """The texts that both automata accept."""
    return _product(left, right, lambda in_left, in_right: in_left and in_right, both_needed=True)


def union(left: Dfa, right: Dfa) -> Dfa:
    """The texts that at least one of the automata accepts."""
    return _product(left, right, lambda in_left, in_right: in_left or in_right)


def difference(left: Dfa, right: Dfa) -> Dfa:
    """The texts that `left` accepts and `right` does not."""
    return _product(left, right, lambda in_left, in_right: in_left and not in_right)


def complement(automaton: Dfa) -> Dfa:
    """The texts over Unicode scalar values that the automaton does not accept."""
    return difference(ANY_TEXT, automaton)


def finite(texts: Iterable[str]) -> Dfa:
    """The automaton of exactly these texts."""
    children: list[dict[str, int]] = [{}]
    ends: set[int] = set()
    for text in texts:
        at = 0
        for char in text:
            if char not in children[at]:
                children[at][char] = len(children)
                children.append({})
            at = children[at][char]
        ends.add(at)
        if len(children) > REGULAR_STATES:
            raise LimitExceeded("regular_states", REGULAR_STATES, len(children))
    edges = tuple(tuple((CharSet.from_chars(char), target) for char, target in node.items()) for node in children)
    return Dfa(edges, frozenset(ends))


def counted(minimum: int, maximum: int | None) -> Dfa:
    """The texts of at least `minimum` and at most `maximum` characters; None is without bound.

    Errors: LimitExceeded beyond `REGULAR_STATES` states.
    """
    last = minimum if maximum is None else maximum
    if last >= REGULAR_STATES:
        raise LimitExceeded("regular_states", REGULAR_STATES, last + 1)
    edges: list[tuple[Edge, ...]] = [((ANY, at + 1),) for at in range(last)]
    edges.append(((ANY, last),) if maximum is None else ())
    return Dfa(tuple(edges), frozenset(range(minimum, last + 1)))


def minimise(automaton: Dfa) -> Dfa:
    """The smallest automaton of the same language: equal languages give equal values.

    States are numbered breadth first, by the least character that leads to them.

    Errors: LimitExceeded beyond `AUTOMATON_STEPS` transitions, counted once a block of characters.
    """
    trimmed = automaton.trimmed()
    if not trimmed.accepting:
        return NO_TEXT
    return _quotient(trimmed, coarsest(len(trimmed.edges), _transitions(trimmed), trimmed.accepting))


def _joined(sets: list[CharSet]) -> CharSet:
    if len(sets) == 1:
        return sets[0]
    return CharSet.from_ranges(bounds for chars in sets for bounds in chars.ranges)


def _transitions(automaton: Dfa) -> list[Transition]:
    """The edges, one a block of characters that no edge tells apart."""
    sets = list(dict.fromkeys(chars for outgoing in automaton.edges for chars, _ in outgoing))
    letters: dict[CharSet, list[int]] = {chars: [] for chars in sets}
    for letter, (_, members) in enumerate(blocks(sets)):
        for number in members:
            letters[sets[number]].append(letter)
    total = sum(len(letters[chars]) for outgoing in automaton.edges for chars, _ in outgoing)
    if total > AUTOMATON_STEPS:
        raise LimitExceeded("automaton_steps", AUTOMATON_STEPS, total)
    return [
        (state, letter, target)
        for state, outgoing in enumerate(automaton.edges)
        for chars, target in outgoing
        for letter in letters[chars]
    ]


def _quotient(automaton: Dfa, block: Sequence[int]) -> Dfa:
    member = {number: state for state, number in enumerate(block)}

    def successors(number: int) -> Iterable[tuple[CharSet, int]]:
        targets: dict[int, CharSet] = {}
        for chars, target in automaton.edges[member[number]]:
            targets[block[target]] = targets[block[target]] | chars if block[target] in targets else chars
        return sorted(((chars, target) for target, chars in targets.items()), key=lambda edge: edge[0].ranges)

    return explore(block[0], successors, lambda number: member[number] in automaton.accepting)


def _product(left: Dfa, right: Dfa, accepts: Callable[[bool, bool], bool], *, both_needed: bool = False) -> Dfa:
    """Runs both automata at once."""

    def successors(pair: Pair) -> Iterable[tuple[CharSet, Pair]]:
        left_edges = () if pair[0] is None else left.edges[pair[0]]
        right_edges = () if pair[1] is None else right.edges[pair[1]]
        for chars, target in left_edges:
            remaining = chars
            for other, other_target in right_edges:
                shared = chars & other
                if shared:
                    yield shared, (target, other_target)
                    remaining = remaining - shared
            if remaining and not both_needed:
                yield remaining, (target, None)
        if both_needed:
            return
        for chars, target in right_edges:
            for other, _ in left_edges:
                chars = chars - other
            if chars:
                yield chars, (None, target)

    def accepting(pair: Pair) -> bool:
        return accepts(pair[0] in left.accepting, pair[1] in right.accepting)

    start: Pair = (0, 0)
    return minimise(explore(start, successors, accepting))
