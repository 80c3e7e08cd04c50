"""Every language on the small English model, as chat turns, with the values read back by `parse`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import SELECTED, Ask, Engine, Sample
from tests.support.kinds import DATE, LISTS, Person, Tree, is_compact_object, is_list_text

pytestmark = pytest.mark.engine

QUESTIONS = ["Tell me about Ann, who is seven.", "When was it?", "I like this film a lot!", "Count to three."]
PAIRS = TypeAdapter(list[tuple[int, bool]])


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    with Engine(smollm2, max_num_seqs=24, **SELECTED) as running:
        yield running


def chat(engine: Engine, constraint: OutputConstraint, max_tokens: int = 80, **sampling: Any) -> list[Sample]:
    """Twenty-four turns: each question greedy and five times sampled."""
    asks = []
    for question in QUESTIONS:
        for seed in range(6):
            drawn = {"temperature": 1.0, "seed": seed} if seed else {"temperature": 0.0}
            settings = {"max_tokens": max_tokens, **drawn, **sampling}
            asks.append(Ask([{"role": "user", "content": question}], constraint, settings))
    return [answer.only for answer in engine.chat(asks)]


def ended(samples: list[Sample], least: int) -> list[Sample]:
    """The samples that ended by themselves; the others ran out of tokens and say so.

    How many end is the model's affair, and differs with the rounding of a machine: `least` leaves room for that.
    """
    for sample in samples:
        assert sample.error is None
        assert sample.constraint is not None
        assert sample.constraint.terminated == (sample.finish_reason == "stop")
        assert sample.finish_reason in ("stop", "length")
    found = [sample for sample in samples if sample.finish_reason == "stop"]
    assert len(found) >= least
    assert all(sample.constraint is not None and sample.constraint.complete for sample in found)
    return found


@pytest.mark.contract("CHO-1", "CHO-3", "API-2")
def test_choices(engine: Engine) -> None:
    words = ["positive", "negative", "neither", "not", "nothing at all"]
    constraint = OutputConstraint.choice(words)
    samples = ended(chat(engine, constraint, 16), 24)
    assert {constraint.parse(sample.text) for sample in samples} <= set(words)


@pytest.mark.contract("RGX-1", "RGX-2", "RGX-3", "API-2")
@pytest.mark.parametrize(
    "source", [DATE, r"[A-Z]\w{0,9}( [a-z]{1,8}){1,4}[.!?]", r"(one|two|three)(, (one|two|three)){0,3}"]
)
def test_regular_expressions(engine: Engine, source: str) -> None:
    constraint = OutputConstraint.regex(source)
    for sample in ended(chat(engine, constraint, 60), 24):
        assert re.fullmatch(source, constraint.parse(sample.text), re.ASCII)


@pytest.mark.contract("GBNF-1", "API-2")
def test_grammars(engine: Engine) -> None:
    for sample in ended(chat(engine, OutputConstraint.grammar(LISTS)), 12):
        assert is_list_text(sample.text)


@pytest.mark.contract("JSO-1", "JSO-3", "API-2")
def test_json_objects(engine: Engine) -> None:
    constraint = OutputConstraint.json_object()
    for sample in ended(chat(engine, constraint, 120), 1):
        assert is_compact_object(sample.text)
        assert isinstance(constraint.parse(sample.text), dict)


@pytest.mark.contract("JST-2", "JST-5", "JST-6", "JSD-4", "API-2", "REQ-1")
@pytest.mark.parametrize("model", [Person, Tree])
def test_pydantic_models_go_in_and_instances_come_back(engine: Engine, model: type[BaseModel]) -> None:
    constraint = OutputConstraint.json_schema(model)
    for sample in ended(chat(engine, constraint, 160), 1):
        assert isinstance(constraint.parse(sample.text), model)


@pytest.mark.contract("JST-4", "REQ-1", "API-2")
def test_type_adapters_go_in_and_their_values_come_back(engine: Engine) -> None:
    constraint = OutputConstraint.json_schema(PAIRS)
    for sample in ended(chat(engine, constraint, 120), 1):
        value = constraint.parse(sample.text)
        assert isinstance(value, list)
        assert all(isinstance(number, int) and isinstance(flag, bool) for number, flag in value)
