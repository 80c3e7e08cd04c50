"""Sampled drafts of EAGLE, EAGLE3, MTP, DFlash, Medusa and suffix trees: whole outputs follow the masked target."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support import draft_heads
from tests.support.asynchronous import schedule_asynchronously
from tests.support.drafts import watching
from tests.support.engine import IN_PROCESS, SELECTED, Answer, Ask, Engine, generate
from tests.support.oracles.chi_square import is_consistent
from tests.support.paths import Path_, shares_of, spelled
from tests.support.steps import Step, noting_steps

pytestmark = [pytest.mark.engine]

REQUESTS = 1_000
OPTIONS: dict[str, Any] = {
    "dtype": "float32", "max_model_len": 128, "max_num_seqs": 64, "max_logprobs": -1, "gpu_memory_utilization": 0.3,
}  # fmt: skip
NUM_DRAFTS = 2
# A digit is always a token of its own, so what comes behind it is chosen, and drafted, in every request.
FIRST = "7"
PROMPT = f"{FIRST}ace {FIRST}ace {FIRST}ace "
NUM_LETTERS = 3
SAMPLED = {"temperature": 1.0, "max_tokens": 1 + NUM_LETTERS}


@dataclass(frozen=True, slots=True)
class Case:
    """A proposer as it is configured."""

    method: str
    sampling: str | None = None
    is_asynchronous: bool = False
    is_usual: bool = False
    """Whether it runs without being asked for."""


CASES = {
    "eagle3": Case("eagle3", "probabilistic", is_usual=True),
    "eagle": Case("eagle", "probabilistic"),
    "mtp-asynchronous": Case("mtp", "greedy", is_asynchronous=True, is_usual=True),
    "eagle3-greedy": Case("eagle3", "greedy"),
    "eagle3-asynchronous": Case("eagle3", "probabilistic", is_asynchronous=True),
    "eagle-greedy": Case("eagle", "greedy"),
    "mtp": Case("mtp", "greedy"),
    "mtp-probabilistic": Case("mtp", "probabilistic"),
    "dflash": Case("dflash", "greedy"),
    "dflash-probabilistic": Case("dflash", "probabilistic"),
    "medusa": Case("medusa"),
    "suffix": Case("suffix"),
}
HEADS = {
    "eagle": draft_heads.write_eagle,
    "eagle3": draft_heads.write_eagle3,
    "dflash": draft_heads.write_dflash,
    "medusa": draft_heads.write_medusa,
}
ALL = os.environ.get("NINFER_PROPOSERS") == "all"


@dataclass(frozen=True, slots=True)
class Run:
    """What came of many equal requests."""

    counts: Counter[Path_]
    """Outputs: the tokens behind the first one, without the end; rare ones together under the empty path."""
    target: dict[Path_, float]
    """What they should follow, from the engine's own log probabilities."""
    num_illegal: int
    """Proposals whose first draft was illegal."""
    num_verified: int
    """Steps in which drafts were verified."""
    prompt_size: int
    steps: dict[int, list[Step]]
    """Steps by the seed of their request."""


@pytest.fixture(scope="module", params=[name for name, case in CASES.items() if ALL or case.is_usual])
def run(request: pytest.FixtureRequest, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    case = CASES[request.param]
    if case.method == "suffix" and find_spec("arctic_inference") is None:
        pytest.skip("the host's suffix proposer is the package arctic-inference")
    speculation: dict[str, Any] = {"method": case.method, "num_speculative_tokens": NUM_DRAFTS}
    if case.sampling is not None:
        speculation["draft_sample_method"] = case.sampling
    model, folder = tiny, tmp_path_factory.mktemp("heads") / case.method
    if case.method == "mtp":
        draft_heads.write_model_with_mtp(folder, tiny)
        model = folder
    elif case.method in HEADS:
        HEADS[case.method](folder)
        speculation["model"] = str(folder)
    prepare = schedule_asynchronously if case.is_asynchronous else None
    options = {"prepared_by": prepare, "speculative_config": speculation, **OPTIONS, **SELECTED}
    with Engine(model, IN_PROCESS, **options) as running:
        assert running.call(is_asynchronous) == case.is_asynchronous
        yield running.call(many, REQUESTS)


@pytest.mark.contract("SPC-1", "SPC-2", "SPC-3", "SPC-4", "SPC-7", "SPC-9", "SMP-2")
def test_outputs_follow_the_masked_target(run: Run) -> None:
    # All drafts of a request accepted: one step; none: one for each letter.
    assert 1.05 < run.num_verified / REQUESTS < NUM_LETTERS - 0.05, "drafts are always or never accepted"
    assert run.num_illegal > REQUESTS / 20, "no draft was illegal: the test shows little"
    assert len(run.counts) > 10, "few outputs took all: the test shows little"
    assert is_consistent(run.counts, run.target)


@pytest.mark.contract("SMP-5", "SPC-7")
def test_every_token_is_drawn_with_the_numbers_of_its_own_place(run: Run) -> None:
    """Whatever was drafted, rejected or scheduled ahead meanwhile: places are those of the tokens that stand."""
    assert len(run.steps) == REQUESTS
    for steps in run.steps.values():
        place = run.prompt_size
        for step in steps:
            assert step.position == place
            place += step.num_tokens


def is_asynchronous(llm: Any) -> bool:
    """Runs beside the engine: whether it schedules ahead of what it knows."""
    found: bool = llm.llm_engine.vllm_config.scheduler_config.async_scheduling
    return found


def many(llm: Any, count: int) -> Run:
    """Runs beside the engine: many requests that differ in their seed alone, and those that tell the target."""
    letters = f"[{draft_heads.LEGAL}]"
    constraint = OutputConstraint.regex(f"{FIRST}{letters}{{{NUM_LETTERS}}}")
    with watching(llm) as seen, noting_steps() as steps:
        answers = generate(llm, [Ask(PROMPT, constraint, {**SAMPLED, "seed": seed}) for seed in range(count)])
    prompt = answers[0].prompt_token_ids

    def rest_of(text: str) -> OutputConstraint:
        return OutputConstraint.regex(f"{letters}{{{NUM_LETTERS - len(text)}}}")

    begun = (*prompt, answers[0].only.token_ids[0])
    target = shares_of(llm, begun, REQUESTS, rest_of, lambda text: len(text) == NUM_LETTERS)
    paths = [path_of(llm, answer) for answer in answers]
    counts = Counter(path if path in target else () for path in paths)
    num_illegal = sum(states[1] == "UNREACHABLE" for _, states in seen.states)
    return Run(counts, target, num_illegal, len(seen.scheduled), len(prompt), dict(steps))


def path_of(llm: Any, answer: Answer) -> Path_:
    """The output's tokens behind the first, without an end token."""
    assert answer.only.text[0] == FIRST
    assert len(answer.only.text) == 1 + NUM_LETTERS
    return tuple(token for token in answer.only.token_ids[1:] if spelled(llm, (token,)))
