"""States of automata behind which free text is all that is left: small automata that many grammars have in common.

"Any key but these" is a tree of the keys beside the automaton of all strings. Whoever leaves the tree is where every
other grammar with such keys is, too, if only the states are numbered alike.
"""

from __future__ import annotations

from ninfer_vllm.automata.charset import Range
from ninfer_vllm.automata.dfa import Dfa, Edge
from ninfer_vllm.engines.native.kinds import WIDE
from ninfer_vllm.grammar.ir import Regular

MAX_STATES = 16
"""States of an automaton that grammars are likely to share: the spellings of all JSON strings have a few."""


class Sinks:
    """The sinks of one grammar's automata."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Dfa, Regular | None]] = {}

    def of(self, automaton: Dfa, state: int) -> Regular | None:
        """What an automaton accepts from a state on, in its one form; None where the state is no sink."""
        key = (id(automaton), state)
        found = self._known.get(key)
        if found is None:
            # The automaton is kept, so that its identity stays its own.
            found = self._known[key] = (automaton, _rest(automaton, state))
        return found[1]


def _rest(automaton: Dfa, start: int) -> Regular | None:
    if not any(target == start and len(chars) >= WIDE for chars, target in automaton.edges[start]):
        return None
    number = {start: 0}
    order = [start]
    for state in order:  # grows while it is read
        for _, target in sorted(automaton.edges[state], key=_ranges):
            if target not in number:
                number[target] = len(order)
                order.append(target)
        if len(order) > MAX_STATES:
            return None
    renumbered = (((chars, number[target]) for chars, target in automaton.edges[state]) for state in order)
    edges = tuple(tuple(sorted(outgoing, key=_ranges)) for outgoing in renumbered)
    return Regular(Dfa(edges, frozenset(number[state] for state in order if state in automaton.accepting)))


def _ranges(edge: Edge) -> tuple[Range, ...]:
    return edge[0].ranges
