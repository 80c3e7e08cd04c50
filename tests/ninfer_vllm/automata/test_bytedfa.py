"""The table of a byte automaton and its distances are those of the automaton it was made from."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from ninfer_vllm.automata.bytedfa import DEAD, ByteDfa
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.expressions import fullmatch_dfa
from ninfer_vllm.automata.utf8 import encoded
from tests.support.expressions import expression, text

pytestmark = pytest.mark.contract("GDE-2")


def test_table_reads_what_the_automaton_reads() -> None:
    rng = random.Random(7)
    for _ in range(150):
        automaton = encoded(fullmatch_dfa(expression(rng).ours))
        if automaton.is_empty:
            continue
        table = ByteDfa.of(automaton)
        for data in (text(rng).encode() for _ in range(20)):
            assert table.accepts(data) == automaton.accepts("".join(map(chr, data)))


def test_dead_states_are_pruned_so_that_a_step_to_them_is_dead() -> None:
    a, b = CharSet.from_chars("a"), CharSet.from_chars("b")
    table = ByteDfa.of(Dfa((((a, 1), (b, 2)), (), ((b, 2),)), frozenset((1,))))
    assert len(table) == 2
    assert table.run(b"a") == 1
    assert table.run(b"b") == table.run(b"bb") == DEAD
    assert table.table.shape == (2, 256)


def test_distance_is_the_least_number_of_bytes_to_acceptance() -> None:
    table = ByteDfa.of(encoded(fullmatch_dfa("ab|a(?:é|bc|😀)d|c{4,}")))
    letters = sorted(set("abcdé😀".encode()))
    for state in range(len(table)):
        least = next(
            size
            for size in range(7)
            if any(
                (end := table.run(bytes(tail), state)) != DEAD and table.accepting[end]
                for tail in product(letters, repeat=size)
            )
        )
        assert table.distance[state] == least
        lower = [int(table.distance[target]) for target in table.table[state] if target != DEAD]
        assert table.accepting[state] == (least == 0)
        assert least == 0 or min(lower) == least - 1


def test_arrays_are_read_only() -> None:
    table = ByteDfa.of(encoded(fullmatch_dfa("a")))
    for array in (table.table, table.accepting, table.distance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert table.nbytes == sum(array.nbytes for array in (table.table, table.accepting, table.distance))
    assert table.table.dtype == np.int32
