"""Lowering once: keys, single flight, remembered refusals, a byte budget."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ninfer_vllm.compiler.lowering import LoweringCache, key_of
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import InvalidRegex
from tests.support.vocabularies import byte_vocabulary


@pytest.mark.contract("CMP-2")
def test_key_keeps_property_order_and_options_but_not_the_order_of_choices() -> None:
    schema = OutputConstraint.json_schema
    assert key_of(schema({"a": 1, "b": 2})) != key_of(schema({"b": 2, "a": 1}))
    assert key_of(schema({})) != key_of(schema({}, unknown_keywords="annotation"))
    assert key_of(schema("{}")) == key_of(schema({}))
    choice = OutputConstraint.choice
    assert key_of(choice(["a", "b", "a"])) == key_of(choice(["b", "a"]))
    assert key_of(choice(["ab", "c"])) != key_of(choice(["a", "bc"]))
    assert key_of(OutputConstraint.regex("a")) != key_of(OutputConstraint.grammar("a"))


@pytest.mark.contract("CMP-3", "CMP-5")
def test_concurrent_requests_lower_once() -> None:
    adapted: list[int] = []
    gate = threading.Event()

    def vocabulary():
        adapted.append(1)
        gate.wait(5)
        return byte_vocabulary()

    cache = LoweringCache(vocabulary)
    constraint = OutputConstraint.grammar('root ::= "a"')
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(cache.lower, constraint) for _ in range(4)]
        gate.set()
        results = [future.result(10) for future in futures]
    assert len(adapted) == 1
    assert all(result is results[0] for result in results)


@pytest.mark.contract("CMP-8", "ERR-1")
def test_refusals_are_results_and_come_back_equal() -> None:
    cache = LoweringCache(byte_vocabulary)
    refusals = []
    for _ in range(2):
        with pytest.raises(InvalidRegex) as refusal:
            cache.lower(OutputConstraint.regex("a(b"))
        refusals.append(refusal.value)
    assert refusals[0] == refusals[1]
    assert refusals[0].place == {"offset": 1}


def test_budget_drops_the_oldest_results() -> None:
    cache = LoweringCache(byte_vocabulary, budget=2000)
    constraints = [OutputConstraint.choice([f"{'x' * 300}{number}"]) for number in range(30)]
    first = cache.lower(constraints[0])
    for constraint in constraints:
        cache.lower(constraint)
    assert cache.lower(constraints[0]) is not first
    assert cache.lower(constraints[0]) is cache.lower(constraints[0])
