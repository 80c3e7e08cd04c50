"""The coarsest partition of states, against plain refinement."""

from __future__ import annotations

import random

import pytest

from ninfer_vllm.automata.algebra import counted, intersection, minimise
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.expressions import pattern_dfa
from ninfer_vllm.automata.minimal import Transition, coarsest
from tests.support.effort import cpu_within


def _random_automaton(rng: random.Random) -> Dfa:
    num_states, letters = rng.randrange(1, 9), "abc"[: rng.randrange(1, 4)]
    edges = []
    for _ in range(num_states):
        targets = {char: rng.randrange(num_states) for char in letters if rng.random() < 0.7}
        edges.append(tuple((CharSet.from_chars(char), target) for char, target in targets.items()))
    return Dfa(tuple(edges), frozenset(state for state in range(num_states) if rng.random() < 0.4))


def _refined(automaton: Dfa) -> list[int]:
    """Blocks by refining until nothing changes, rejection as one more state."""
    blocks = [int(state in automaton.accepting) for state in range(len(automaton.edges))]
    while True:
        seen: dict[object, int] = {}
        finer = []
        for state, outgoing in enumerate(automaton.edges):
            signature = (blocks[state], frozenset((chars, blocks[target]) for chars, target in outgoing))
            finer.append(seen.setdefault(signature, len(seen)))
        if len(seen) == len(set(blocks)):
            return finer
        blocks = finer


@pytest.mark.contract("GDE-2", "GDE-11")
def test_blocks_are_those_of_plain_refinement() -> None:
    rng = random.Random(4)
    for _ in range(2_000):
        automaton = _random_automaton(rng).trimmed()
        if automaton.accepting:
            transitions: list[Transition] = [
                (state, chars.ranges[0][0], target)
                for state, outgoing in enumerate(automaton.edges)
                for chars, target in outgoing
            ]
            blocks = coarsest(len(automaton.edges), transitions, automaton.accepting)
            expected = _refined(automaton)
            assert len(set(zip(blocks, expected, strict=True))) == len(set(blocks)) == len(set(expected))
            assert len(minimise(automaton).edges) == len(set(expected))


@pytest.mark.contract("JSC-5", "CMP-9")
def test_long_chain_is_minimised_in_time() -> None:
    with cpu_within(30):
        assert len(minimise(counted(0, 8_192)).edges) == 8_193
        assert len(intersection(counted(3, 8_000), pattern_dfa("^[a-z]+$")).edges) == 8_001
