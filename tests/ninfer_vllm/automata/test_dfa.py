"""What an automaton says of itself, against its own edges and texts."""

from __future__ import annotations

from hypothesis import given, settings

from ninfer_vllm.automata.dfa import Dfa
from tests.support.small_automata import automata

FEWER = settings(max_examples=100, deadline=None)


@FEWER
@given(automata())
def test_is_trim_where_every_state_leads_to_acceptance(automaton: Dfa) -> None:
    assert automaton.is_trim == all(
        reachable(automaton, state) & automaton.accepting for state in range(len(automaton.edges))
    )


def reachable(automaton: Dfa, start: int) -> set[int]:
    found = {start}
    for _ in automaton.edges:
        found |= {target for state in found for _, target in automaton.edges[state]}
    return found


@FEWER
@given(automata())
def test_sets_and_what_may_follow_are_those_of_the_edges(automaton: Dfa) -> None:
    assert set(automaton.sets) == {chars for outgoing in automaton.edges for chars, _ in outgoing}
    behind = [chars for state in automaton.accepting for chars, _ in automaton.edges[state]]
    for code in range(0x80):
        assert automaton.ascii_behind >> code & 1 == any(code in chars for chars in behind)
    assert automaton.ascii_behind < 1 << 0x80


@FEWER
@given(automata())
def test_equal_automata_have_one_hash(automaton: Dfa) -> None:
    copy = Dfa(tuple(tuple(outgoing) for outgoing in automaton.edges), frozenset(automaton.accepting))
    assert (copy, hash(copy)) == (automaton, hash(automaton))
