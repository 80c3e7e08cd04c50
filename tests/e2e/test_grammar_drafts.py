"""Grammar drafts on the real engine: the same outputs in fewer steps, and the same distribution."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import IN_PROCESS, Answer, Ask, Engine, generate
from tests.support.inspection import manager_of, scheduler_of
from tests.support.oracles.chi_square import LEAST_EXPECTED, is_consistent

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

Path_ = tuple[int, ...]


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
    target = shares(llm, answers[0].prompt_token_ids, count)
    outputs = [tuple(token for token in answer.only.token_ids if spelled(llm, (token,))) for answer in answers]
    return Counter(path if path in target else () for path in outputs), target


def shares(llm: Any, prompt: Path_, count: int) -> dict[Path_, float]:
    """The probability of each frequent output, and of all others together under the empty path."""
    found: dict[Path_, float] = {}
    open_paths: dict[Path_, float] = {(): 1.0}
    while open_paths:
        following: dict[Path_, float] = {}
        for path, scores in zip(open_paths, scored(llm, prompt, list(open_paths)), strict=True):
            for token, score in scores.items():
                following[*path, token] = open_paths[path] * math.exp(score)
        frequent = {path: share for path, share in following.items() if share * count >= LEAST_EXPECTED}
        found |= {path: share for path, share in frequent.items() if spelled(llm, path) in TEXTS}
        open_paths = {path: share for path, share in frequent.items() if path not in found}
    return {**found, (): 1 - math.fsum(found.values())}


def scored(llm: Any, prompt: Path_, begun: list[Path_]) -> list[dict[int, float]]:
    """Log probabilities of what may follow each path."""
    asks = []
    for path in begun:
        text = spelled(llm, path)
        rests = [whole[len(text) :] for whole in TEXTS if whole.startswith(text)]
        sampling = {"temperature": 1.0, "max_tokens": 1, "logprobs": 50}
        asks.append(Ask((*prompt, *path), OutputConstraint.choice(rests), sampling))
    return [(answer.only.logprobs or ({},))[0] for answer in generate(llm, asks)]


def spelled(llm: Any, path: Path_) -> str:
    """Its text; an end token has none."""
    text: str = llm.get_tokenizer().decode(list(path), skip_special_tokens=True)
    return text
