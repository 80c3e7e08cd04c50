"""Work is counted alike whatever is remembered, and stops at its limit."""

from __future__ import annotations

import pytest

from ninfer_vllm.automata.algebra import complement, intersection
from ninfer_vllm.automata.expressions import pattern_dfa
from ninfer_vllm.automata.work import LIMIT, REMEMBERED_STEPS, budget, remembered, spend, uncounted
from ninfer_vllm.errors import LimitExceeded

pytestmark = pytest.mark.contract("CMP-9", "SEC-2")


def test_budget_ends_where_its_steps_do() -> None:
    with budget(10) as opened:
        for _ in range(3):
            spend(3)
        with pytest.raises(LimitExceeded) as caught:
            spend(3)
    assert (caught.value.limit, caught.value.allowed, caught.value.given, opened.spent) == (LIMIT, 10, 12, 12)


def test_nothing_is_counted_without_a_budget() -> None:
    spend(10**12)


def test_budget_inside_another_leaves_it_alone() -> None:
    with budget(10) as outer:
        spend(4)
        with budget() as inner:
            spend(100)
        spend(5)
    assert (outer.spent, inner.spent) == (9, 100)


def test_remembered_result_costs_what_making_it_cost_once_in_a_budget() -> None:
    made = []

    @remembered(4)
    def twice(number: int) -> int:
        made.append(number)
        spend(number)
        return 2 * number

    @remembered(4)
    def sum_of_both(number: int) -> int:
        spend(1)
        return twice(number) + twice(number)

    costs = []
    for _ in range(3):
        with budget() as opened:
            assert sum_of_both(7) == sum_of_both(7) == 28
        costs.append(opened.spent)
    assert (costs, made) == ([8, 8, 8], [7])
    assert twice(7) == 14


@pytest.mark.parametrize("first", ["part", "whole"])
def test_what_was_paid_for_before_makes_nothing_cheaper_for_others(first: str) -> None:
    @remembered(4)
    def part(number: int) -> int:
        spend(number)
        return number

    @remembered(4)
    def whole(number: int) -> int:
        spend(1)
        return part(number)

    names = {"part": part, "whole": whole}
    with budget() as earlier:
        for make in (names.pop(first), *names.values()):
            assert make(7) == 7
    with budget() as later:
        assert whole(7) == 7
    assert (earlier.spent, later.spent) == (15, 8)


def test_a_result_that_fell_out_of_the_cache_is_not_made_again_for_nothing() -> None:
    made = []

    @remembered(1)
    def number(value: int) -> int:
        made.append(value)
        spend(5)
        return value

    with budget() as opened:
        assert [number(value) for value in (1, 2, 1, 2)] == [1, 2, 1, 2]
    assert (opened.spent, made) == (10, [1, 2])


def test_large_results_are_not_all_remembered() -> None:
    made = []

    @remembered(256)
    def large(value: int) -> int:
        made.append(value)
        spend(REMEMBERED_STEPS // 3)
        return value

    @remembered(256)
    def giant(value: int) -> int:
        made.append(value)
        spend(REMEMBERED_STEPS + 1)
        return value

    for value in (1, 2, 3, 1, 2, 3, 4, 2, 1):
        assert large(value) == value
    assert made == [1, 2, 3, 4, 1], "three have room, and the one that was asked for longest ago goes"
    assert [giant(5), giant(5)] == [5, 5]
    assert made[5:] == [5, 5]


def test_what_a_failing_result_has_spent_stays_spent() -> None:
    @remembered(4)
    def refused(steps: int) -> int:
        spend(steps)
        raise ValueError("no")

    with budget() as opened:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                refused(5)
    assert opened.spent == 10


def test_remembered_result_is_refused_like_a_new_one() -> None:
    @remembered(4)
    def dear(steps: int) -> int:
        spend(steps)
        return steps

    with budget():
        assert dear(50) == 50
    for _ in range(2):
        with pytest.raises(LimitExceeded), budget(49):
            dear(50)


def test_constants_cost_nothing() -> None:
    @uncounted
    def constant() -> int:
        spend(10**9)
        return 1

    with budget(1) as opened:
        assert constant() == constant() == 1
    assert opened.spent == 0


def test_automata_spend_as_they_grow() -> None:
    costs = []
    for size in (10, 100, 1000):
        with budget() as opened:
            left = pattern_dfa(f"^(?:ab){{{size}}}$")
            assert not intersection(left, complement(pattern_dfa("^b"))).is_empty
        costs.append(opened.spent)
    assert costs[0] * 5 < costs[1]
    assert costs[1] * 5 < costs[2]
