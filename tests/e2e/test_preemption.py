"""Constrained rows that are preempted and resumed on the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import IN_PROCESS, SELECTED, Answer, Ask, Engine
from tests.support.inspection import add, drain, scheduler_of, state_of

pytestmark = pytest.mark.engine

COLOURS = ("red", "blue")
TEXTS = [" ".join(f"item {number} is {colour}" for number in range(7)) for colour in COLOURS]
CHOICE = OutputConstraint.choice(TEXTS)
DIGITS = OutputConstraint.regex("[0-9]{90}")
SAMPLING: dict[str, Any] = {"max_tokens": 120}
# The host preempts the request that came last, so the unconstrained one comes first.
ASKS = [
    Ask("Free:", None, {**SAMPLING, "temperature": 0.0}),
    Ask("Colours:", CHOICE, {**SAMPLING, "temperature": 0.0}),
    Ask("More colours:", CHOICE, {**SAMPLING, "temperature": 1.0, "seed": 1}),
    Ask("Digits:", DIGITS, {**SAMPLING, "temperature": 0.0}),
    Ask("More digits:", DIGITS, {**SAMPLING, "temperature": 1.0, "seed": 2}),
]


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    # Room for about two of the requests: 9 blocks of 32 tokens, one of which the host keeps, and a request grows to 4.
    options = {"block_size": 32, "num_gpu_blocks_override": 9, "enable_prefix_caching": False}
    with Engine(tiny, IN_PROCESS, max_model_len=160, max_num_seqs=8, dtype="float32", **options, **SELECTED) as running:
        yield running


@pytest.mark.contract("ENG-2", "SES-1", "SMP-6")
def test_preempted_rows_continue_exactly(engine: Engine) -> None:
    alone = [engine.generate([ask])[0] for ask in ASKS]
    answers, preempted = engine.call(generate_watched, ASKS)
    assert len(preempted) >= 2
    assert all(tokens > 0 for tokens in preempted), "rows were preempted in the middle of their output"
    for ask, answer, expected in zip(ASKS, answers, alone, strict=True):
        sample = answer.only
        if ask.constraint is None:
            continue
        assert sample.finish_reason == "stop"
        assert sample.text in TEXTS or (len(sample.text) == 90 and sample.text.isdecimal())
        assert sample.token_ids == expected.only.token_ids
        record, reference = sample.constraint, expected.only.constraint
        assert record is not None
        assert reference is not None
        assert (record.complete, record.terminated) == (True, True)
        # Recomputation asks for no mask and replays no token.
        assert record.mask_positions == reference.mask_positions == len(sample.token_ids)
    assert answers[0].only.token_ids == alone[0].only.token_ids
    assert engine.call(state_of).sessions == 0


def generate_watched(llm: Any, asks: list[Ask]) -> tuple[list[Answer], list[int]]:
    """Runs beside the engine: the answers, and how long the output of each row was when it was preempted."""
    scheduler = scheduler_of(llm)
    preempt = scheduler._preempt_request
    preempted: list[int] = []

    def watched(request: Any, *arguments: Any, **options: Any) -> Any:
        if request.use_structured_output:
            preempted.append(request.num_output_tokens)
        return preempt(request, *arguments, **options)

    scheduler._preempt_request = watched
    answers: dict[str, Answer] = {}
    try:
        ids = add(llm, {str(number): ask for number, ask in enumerate(asks)})
        drain(llm, answers)
    finally:
        del scheduler._preempt_request
    return [answers[name] for name in ids], preempted
