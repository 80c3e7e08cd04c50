"""Set operations on languages: exploration, product, complement, minimisation, finite sets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from ninfer_vllm.automata.charset import ANY, CharSet, blocks
from ninfer_vllm.automata.dfa import Dfa, Edge
from ninfer_vllm.automata.minimal import Transition, coarsest
from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.limits import AUTOMATON_STEPS, REGULAR_STATES

State = TypeVar("State", bound=Hashable)

STATE_STEPS, EDGE_STEPS = 4, 3
"""Steps of a new state and of one of its edges."""

CUT_STEPS = 3
"""Steps of comparing two sets of characters."""

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
        num_edges = 0
        for chars, successor in successors(state):
            target = number.get(successor)
            if target is None:
                target = number[successor] = len(order)
                order.append(successor)
            targets.setdefault(target, []).append(chars)
            num_edges += 1
        edges.append(tuple((_joined(sets), target) for target, sets in targets.items()))
        spend(STATE_STEPS + EDGE_STEPS * num_edges)
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
    spend(EDGE_STEPS * total)
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
    """Runs both automata at once.

    Most states have the labels of many others: what two groups of labels have in common is worked out once.
    """
    left_labels, right_labels = _Labels(left), _Labels(right)
    left_targets, right_targets = _targets(left), _targets(right)
    cuts: dict[tuple[int, int], list[Cut]] = {}

    def successors(pair: Pair) -> Iterable[tuple[CharSet, Pair]]:
        at_left, at_right = pair
        groups = left_labels.group(at_left), right_labels.group(at_right)
        cut = cuts.get(groups)
        if cut is None:
            cut = list(_cut(left_labels.of(groups[0]), right_labels.of(groups[1]), both_needed=both_needed))
            cuts[groups] = cut
        to_left = () if at_left is None else left_targets[at_left]
        to_right = () if at_right is None else right_targets[at_right]
        for chars, one, other in cut:
            yield chars, (None if one is None else to_left[one], None if other is None else to_right[other])

    def accepting(pair: Pair) -> bool:
        return accepts(pair[0] in left.accepting, pair[1] in right.accepting)

    start: Pair = (0, 0)
    return minimise(explore(start, successors, accepting))


Cut = tuple[CharSet, int | None, int | None]
"""Characters that one label of each group has, by their indexes, or a label of one group alone."""


class _Labels:
    """The labels of the edges of each state, equal ones as one group; those of a rejecting automaton are group 0."""

    def __init__(self, automaton: Dfa) -> None:
        numbers: dict[tuple[CharSet, ...], int] = {(): 0}
        self._groups = [
            numbers.setdefault(tuple(chars for chars, _ in outgoing), len(numbers)) for outgoing in automaton.edges
        ]
        self._labels = list(numbers)

    def group(self, state: int | None) -> int:
        """The group of a state."""
        return 0 if state is None else self._groups[state]

    def of(self, group: int) -> tuple[CharSet, ...]:
        """The labels of a group."""
        return self._labels[group]


def _targets(automaton: Dfa) -> list[tuple[int, ...]]:
    return [tuple(target for _, target in outgoing) for outgoing in automaton.edges]


def _cut(left: tuple[CharSet, ...], right: tuple[CharSet, ...], *, both_needed: bool) -> Iterator[Cut]:
    """The characters that both groups have, and unless both are needed those that one of them has."""
    spend(CUT_STEPS * len(left) * len(right))
    for one, chars in enumerate(left):
        remaining = chars
        for other, label in enumerate(right):
            shared = chars & label
            if shared:
                yield shared, one, other
                remaining = remaining - shared
        if remaining and not both_needed:
            yield remaining, one, None
    for other, chars in enumerate(() if both_needed else right):
        for label in left:
            chars = chars - label
        if chars:
            yield chars, None, other
