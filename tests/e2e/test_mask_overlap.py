"""Masks are computed while the model runs, in plain and in speculative steps; the worker is a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import IN_PROCESS, SELECTED, Ask, Engine
from tests.support.forward_clock import Timed, timed_steps
from tests.support.kinds import DATE, Person

pytestmark = pytest.mark.engine

OPTIONS = {"max_model_len": 256, "distributed_executor_backend": "mp"}
WORKER = "tests.support.forward_clock.ForwardClock"
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1, "prompt_lookup_max": 3}
GREEDY = {"temperature": 0.0, "max_tokens": 24}
PEOPLE = 'Ann is 7: {"name":"Ann","age":7,"email":null}\nBob is 41: {"name":"Bob","age":41,"email":null}\nAnn is 7:'
ASKS = [
    Ask(PEOPLE, OutputConstraint.json_schema(Person), GREEDY),
    Ask("Well, this", OutputConstraint.regex(r"[a-z ]{20,40}"), GREEDY),
    Ask("The first day of 2024 was", OutputConstraint.regex(DATE), GREEDY),
]


@pytest.mark.contract("MSK-10")
def test_masks_are_ready_before_the_model_is(smollm2: Path) -> None:
    with Engine(
        smollm2, IN_PROCESS, worker_extension_cls=WORKER, speculative_config=NGRAM, **OPTIONS, **SELECTED
    ) as engine:
        steps: list[Timed] = engine.call(timed_steps, ASKS)
    for has_drafts in (False, True):
        some = [step for step in steps if step.has_drafts is has_drafts]
        assert len(some) >= 4
        assert all(step.handed_out <= step.mask[0] <= step.mask[1] <= step.sampling for step in some)
        # A busy machine may put the engine core to sleep between the two, but masks that wait for the model never are.
        ready = [step for step in some if step.mask[1] <= step.forward[1]]
        assert ready, [(step.mask, step.forward) for step in some]
