"""Grammar drafts on the real engine: the same outputs in fewer steps, and the same distribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import IN_PROCESS, Answer, Ask, Engine, generate
from tests.support.inspection import manager_of, scheduler_of
from tests.support.oracles.chi_square import is_consistent
from tests.support.paths import Path_, shares_of, spelled

pytestmark = [pytest.mark.engine, pytest.mark.contract("SPC-10")]

OPTIONS: dict[str, Any] = {
    "dtype": "float32", "max_model_len": 128, "max_num_seqs": 64, "max_logprobs": -1,
    "additional_config": {"ninfer": {"grammar_drafts": True}},
    # No text repeats four tokens of the prompt, so there are no drafts but those of the grammar.
    "speculative_config": {
        "method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 4, "prompt_lookup_max": 4,
    },
}  # fmt: skip
SCHEMA = {
    "type": "object", "required": ["first_name", "is_adult"], "additionalProperties": False,
    "properties": {"first_name": {"enum": ["Ann", "Bob"]}, "is_adult": {"type": "boolean"}},
}  # fmt: skip
PROMPTS = ["Who is it?", "One, two, three,", "def add(a, b):", "Somebody, as JSON: "]
REQUESTS = 400
TEXTS = ['{"a":"Ann"}', '{"a":"Bob"}']


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    with Engine(tiny, IN_PROCESS, **OPTIONS) as running:
        yield running


def test_greedy_outputs_are_the_same_in_fewer_steps(engine: Engine) -> None:
    constraint = OutputConstraint.json_schema(SCHEMA)
    asks = [Ask(prompt, constraint, {"temperature": 0.0, "max_tokens": 60}) for prompt in PROMPTS]
    without, steps_without, _ = engine.call(counted, asks, False)
    with_drafts, steps, num_drafts = engine.call(counted, asks, True)
    assert [answer.only.token_ids for answer in with_drafts] == [answer.only.token_ids for answer in without]
    assert num_drafts > 0
    assert steps < steps_without


@pytest.mark.contract("SPC-1", "SPC-2")
def test_sampled_outputs_follow_the_masked_target(engine: Engine) -> None:
    counts, target = engine.call(paths, REQUESTS)
    assert len(target) > 3
    assert is_consistent(counts, target)


def counted(llm: Any, asks: list[Ask], drafted: bool) -> tuple[list[Answer], int, int]:
    """Runs beside the engine: the answers, the steps they took and the drafts that were verified meanwhile."""
    manager, scheduler = manager_of(llm), scheduler_of(llm)
    options, schedule = manager.options, scheduler.schedule
    steps: list[int] = []

    def noted(*args: Any, **rest: Any) -> Any:
        step = schedule(*args, **rest)
        steps.append(sum(map(len, step.scheduled_spec_decode_tokens.values())))
        return step

    manager.options, scheduler.schedule = replace(options, grammar_drafts=drafted), noted
    try:
        answers = generate(llm, asks)
    finally:
        manager.options = options
        del scheduler.schedule
    return answers, len(steps), sum(steps)


def paths(llm: Any, count: int) -> tuple[Counter[Path_], dict[Path_, float]]:
    """Runs beside the engine: whole outputs of requests that differ in their seed, and what they should follow."""
    constraint = OutputConstraint.choice(TEXTS)
    answers = generate(llm, [Ask(PROMPTS[0], constraint, {"temperature": 1.0, "seed": seed}) for seed in range(count)])

    def rest_of(text: str) -> OutputConstraint:
        return OutputConstraint.choice([whole[len(text) :] for whole in TEXTS if whole.startswith(text)])

    target = shares_of(llm, answers[0].prompt_token_ids, count, rest_of, TEXTS.__contains__)
    outputs = [tuple(token for token in answer.only.token_ids if spelled(llm, (token,))) for answer in answers]
    return Counter(path if path in target else () for path in outputs), target
