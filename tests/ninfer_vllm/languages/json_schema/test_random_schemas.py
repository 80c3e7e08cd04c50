"""Random schemas against an independent validator, both ways: no value wrong, no sample invalid."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError, Unsatisfiable
from ninfer_vllm.grammar.checks import undefined_rules
from ninfer_vllm.grammar.ir import Grammar, Rule, walk
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.support.effort import cpu_within
from tests.support.json_schemas import in_python, mutated, schemas, values
from tests.support.oracles.exact_validator import ExactValidator
from tests.support.oracles.json_texts import find_spelling, is_publishable, spellings
from tests.support.oracles.recogniser import Recogniser

NUM_SCHEMAS = int(os.environ.get("NINFER_RANDOM_SCHEMAS", "300"))
MAX_LOWERING_S = 30.0

slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.contract(
    "JST-1", "JST-2", "JST-3", "JST-4", "JST-5", "JST-6", "JST-7", "JSC-1", "JSC-2", "JSC-3", "JSD-10"
)
@pytest.mark.contract("JSX-1", "JSX-2", "JSX-3", "JSX-4", "JSX-5", "JSX-6", "JSX-7", "JSX-8", "JSX-9")
@settings(max_examples=NUM_SCHEMAS, deadline=None, suppress_health_check=slow)
@given(schemas(), st.lists(values, min_size=4, max_size=8), st.integers(0, 1000))
def test_random_schema_agrees_with_the_validator(schema: dict[str, Any], candidates: list[Any], seed: int) -> None:
    validator = ExactValidator(in_python(schema), format_checker=ExactValidator.FORMAT_CHECKER)
    with cpu_within(MAX_LOWERING_S):
        grammar = lowered(schema)
    if grammar is None:
        assert not any(is_valid(validator, value) for value in candidates)
        return
    recogniser = Recogniser(grammar)
    rng = random.Random(seed)
    samples = [sample(grammar, rng, 40).decode() for _ in range(3)]
    for text in samples:
        assert recogniser.accepts(text), text
        assert is_valid(validator, json.loads(text)), text
    for value in (*candidates, *(mutated(json.loads(text), rng) for text in samples)):
        valid = is_valid(validator, value)
        assert is_accepted(recogniser, value, schema) == valid or (valid and not is_publishable(value)), value


def is_accepted(recogniser: Recogniser, value: Any, schema: dict[str, Any]) -> bool:
    """Whether the members of the value have an order in which it is accepted."""
    if any(recogniser.accepts(text) for text in spellings(value, schema, 10)):
        return True
    found = find_spelling(value, recogniser.is_prefix)
    return found is not None and recogniser.accepts(found)


@pytest.mark.contract("JSX-3", "JSX-6")
def test_large_integers_are_told_by_exact_division() -> None:
    """Quotients of binary64 values would call every one of these a multiple."""
    schema = {"type": "integer", "not": {"multipleOf": 1.5}}
    recogniser = Recogniser(lower_json_schema(json.dumps(schema), JsonOptions()))
    for number in (2**61, 2**61 + 1, 2**61 + 2, 2777440293452320834):
        assert recogniser.accepts(str(number)) == bool(number % 3) == is_valid(ExactValidator(schema), number)


@pytest.mark.contract("JSC-4")
@settings(max_examples=200, deadline=None, suppress_health_check=slow)
@given(schemas())
def test_grammar_is_one_that_engines_run(schema: dict[str, Any]) -> None:
    """No rule is undefined, none refers to the root, and none is a repetition of itself alone."""
    grammar = lowered(schema)
    assume(grammar is not None)
    assert grammar is not None
    assert undefined_rules(grammar) == []
    for name, body in grammar.rules.items():
        assert not any(node == Rule(grammar.root) for node in walk(body)), name
        assert body != Rule(name)
        assert not (type(body).__name__ == "Repeat" and Rule(name) in walk(body)), name


@settings(max_examples=100, deadline=None, suppress_health_check=slow)
@given(schemas())
def test_lowering_is_a_function(schema: dict[str, Any]) -> None:
    assert lowered(schema) == lowered(schema)


def lowered(schema: dict[str, Any]) -> Grammar | None:
    """The grammar; None where nothing satisfies the schema; other refusals are left aside."""
    try:
        return lower_json_schema(json.dumps(schema, ensure_ascii=False), JsonOptions())
    except Unsatisfiable:
        return None
    except ConstraintError:
        assume(False)
        raise


def is_valid(validator: Any, value: Any) -> bool:
    """The validator's verdict; where a schema refers to itself without end, the validator has none."""
    try:
        return bool(validator.is_valid(value))
    except RecursionError:
        assume(False)
        raise
    except BaseException as panic:
        # The validator's own tables panic where Python's stack ends inside them.
        assume("RecursionError" not in str(panic))
        raise
