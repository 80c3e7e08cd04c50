"""Sampled speculative decoding on the real engine: outputs follow the masked target, whatever proposes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support.drafts import watching
from tests.support.engine import IN_PROCESS, SELECTED, Ask, Engine, generate
from tests.support.oracles.chi_square import is_consistent
from tests.support.sparse_proposer import propose_sparsely

pytestmark = [pytest.mark.engine]

REQUESTS = 2_000
OPTIONS: dict[str, Any] = {
    "dtype": "float32", "max_model_len": 128, "max_num_seqs": 64, "max_logprobs": -1, "gpu_memory_utilization": 0.3,
}  # fmt: skip
DRAFT_MODEL = {"method": "draft_model", "num_speculative_tokens": 2}
NGRAM = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_min": 1, "prompt_lookup_max": 2}
# A digit is always a token of its own, so the second token is chosen, and drafted, in every request.
FIRST = "7"
REPEATED = "cat"
PROMPT = f"{FIRST}{REPEATED} {FIRST}{REPEATED} {FIRST}{REPEATED} "
TEMPERATURE = 0.3
LIKELIEST = 200
NUM_WORDS = 8
SAMPLED = {"temperature": TEMPERATURE, "max_tokens": 3}
METHODS = {
    "ngram": NGRAM,
    "greedy-draft-model": {**DRAFT_MODEL, "draft_sample_method": "greedy"},
    "probabilistic-draft-model": {**DRAFT_MODEL, "draft_sample_method": "probabilistic"},
}


@dataclass(frozen=True, slots=True)
class Run:
    """What came of many equal requests."""

    counts: Counter[int]
    """Second tokens."""
    target: dict[int, float]
    """What they should follow, from the engine's own log probabilities of that position."""
    num_verified: int
    """Steps in which a draft of a constrained request was verified."""


@pytest.fixture(scope="module", params=METHODS)
def engine(request: pytest.FixtureRequest, tiny: Path) -> Iterator[Engine]:
    speculation = {**METHODS[request.param]}
    if speculation["method"] == "draft_model":
        speculation["model"] = str(tiny)
    with Engine(tiny, IN_PROCESS, speculative_config=speculation, **OPTIONS, **SELECTED) as running:
        yield running


@pytest.mark.contract("SPC-1", "SPC-2", "SPC-3", "SPC-4", "SPC-7", "SPC-9", "SMP-2")
def test_tokens_follow_the_masked_target(engine: Engine) -> None:
    run = engine.call(second_tokens, REQUESTS)
    assert run.num_verified > REQUESTS / 4
    assert len(run.target) > NUM_WORDS
    assert is_consistent(run.counts, run.target)
    assert len(run.counts) > 3, "one token took all: the test shows little"


@pytest.mark.contract("SMP-5", "SPC-7")
def test_seeded_requests_do_not_depend_on_the_batch(engine: Engine, request: pytest.FixtureRequest) -> None:
    if "probabilistic" in request.node.name:
        pytest.skip("the host draws these drafts without the seed of their request")
    constraint = engine.call(likely_choice)
    asks = [Ask(PROMPT, constraint, {**SAMPLED, "seed": seed}) for seed in range(12)]
    together = [answer.only.token_ids for answer in engine.generate(asks)]
    assert len(set(together)) > 1
    backwards = [answer.only.token_ids for answer in engine.generate(asks[::-1])]
    assert backwards[::-1] == together
    assert [engine.generate([ask])[0].only.token_ids for ask in asks[:3]] == together[:3]


@pytest.mark.contract("WEX-4", "SPC-3", "SPC-9")
@pytest.mark.parametrize("selected", [True, False], ids=["ours", "stock"])
def test_illegal_sampled_drafts_leave_the_distribution_alone(tiny: Path, selected: bool) -> None:
    """The contract's a/b/x example: half of the drafts is illegal. The host as it is does not get it right."""
    speculation = {**METHODS["probabilistic-draft-model"], "model": str(tiny), "num_speculative_tokens": 1}
    environment = IN_PROCESS if selected else {**IN_PROCESS, "VLLM_PLUGINS": "none"}
    options = {**OPTIONS, **(SELECTED if selected else {})}
    with Engine(tiny, environment, speculative_config=speculation, **options) as running:
        counts, target = running.call(first_letters, REQUESTS)
    assert is_consistent(counts, target) == selected


def second_tokens(llm: Any, count: int) -> Run:
    """Runs beside the engine: many equal requests, and one that tells the target."""
    constraint = likely_choice(llm)
    asks = [Ask(PROMPT, constraint, SAMPLED)] * count
    with watching(llm) as seen:
        answers = generate(llm, asks)
    first = {answer.only.token_ids[0] for answer in answers}
    assert len(first) == 1, "the first token was to have no alternative"
    scored = generate(llm, [Ask(PROMPT, constraint, {**SAMPLED, "logprobs": -1})])[0].only.logprobs
    assert scored is not None
    return Run(Counter(answer.only.token_ids[1] for answer in answers), tempered(scored[1]), len(seen.scheduled))


def likely_choice(llm: Any) -> OutputConstraint:
    """Runs beside the engine: every second word that the model likes behind the first token, and the repeated one.

    So what is drafted is legal about as often as not, and the legal words share the probability.
    """
    (answer,) = generate(llm, [Ask(PROMPT + FIRST, None, {"max_tokens": 1, "logprobs": LIKELIEST})])
    scores = (answer.only.logprobs or ({},))[0]
    spelled = [llm.get_tokenizer().decode([token]) for token in sorted(scores, key=scores.__getitem__, reverse=True)]
    words = [text for text in spelled if text.isascii() and text.isalpha()]
    return OutputConstraint.choice([FIRST + word for word in dict.fromkeys([*words[: 2 * NUM_WORDS : 2], REPEATED])])


def tempered(scores: dict[int, float]) -> dict[int, float]:
    """Probabilities at the temperature, from log probabilities at temperature 1."""
    weights = {token: math.exp(score / TEMPERATURE) for token, score in scores.items() if score > -math.inf}
    whole = math.fsum(weights.values())
    return {token: weight / whole for token, weight in weights.items()}


def first_letters(llm: Any, count: int) -> tuple[Counter[tuple[int, ...]], dict[tuple[int, ...], float]]:
    """Runs beside the engine: the second tokens where they can be "a" or "b", drafted as "a" or, illegally, as "x"."""
    from vllm.sampling_params import StructuredOutputsParams

    a, b, x = (llm.get_tokenizer().encode(letter)[0] for letter in "abx")
    propose_sparsely(llm, [a, x])
    # The host's own request, which means the same with and without the plugin.
    constraint: Any = StructuredOutputsParams(choice=[FIRST + "a", FIRST + "b"])
    answers = generate(llm, [Ask(PROMPT, constraint, SAMPLED)] * count)
    scored = generate(llm, [Ask(PROMPT, constraint, {**SAMPLED, "logprobs": -1})])[0].only.logprobs
    assert scored is not None
    target = tempered(scored[1])
    assert set(target) == {a, b}
    # As it is, the host may also draw what the mask forbids, and then ends the request.
    return Counter(answer.only.token_ids[1:2] for answer in answers), {
        (token,): share for token, share in target.items()
    }
