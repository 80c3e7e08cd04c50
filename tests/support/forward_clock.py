"""When the model runs, when masks are computed and when sampling starts, of an engine whose worker is a process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.engine import Ask, generate
from tests.support.inspection import manager_of, scheduler_of

Span = tuple[float, float]
"""Begin and end, seconds of the machine's monotonic clock, which its processes share."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One step with a mask."""

    has_drafts: bool
    handed_out: float
    """When the engine core had handed the batch to the worker."""
    mask: Span
    sampling: float
    """When the engine core asked for sampling."""
    forward: Span
    """When the worker ran the model."""


class ForwardClock:
    """Methods that the host adds to its workers."""

    model_runner: Any
    forwards: list[Span]

    def start_clock(self) -> None:
        """Note every run of the model from now on."""
        run = self.model_runner.execute_model
        self.forwards = []

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.monotonic()
            try:
                return run(*args, **kwargs)
            finally:
                self.forwards.append((begin, time.monotonic()))

        self.model_runner.execute_model = timed

    def clock(self) -> list[Span]:
        """The runs so far."""
        return self.forwards


def timed_steps(llm: Any, asks: Sequence[Ask]) -> list[Timed]:
    """Runs beside the engine: generate, and tell the steps in which a mask was computed."""
    core, manager = llm.llm_engine.engine_core.engine_core, manager_of(llm)
    executor, scheduler = core.model_executor, scheduler_of(llm)
    handed_out: list[tuple[float, bool]] = []
    masks: dict[int, Span] = {}
    sampling: dict[int, float] = {}
    run, sample, mask = executor.execute_model, executor.sample_tokens, scheduler.get_grammar_bitmask

    def timed_run(step: Any, **options: Any) -> Any:
        found = run(step, **options)
        handed_out.append((time.monotonic(), bool(step.scheduled_spec_decode_tokens)))
        return found

    def timed_mask(step: Any) -> Any:
        before, calls = time.monotonic(), manager.mask_calls
        found = mask(step)
        if manager.mask_calls > calls:
            masks[len(handed_out) - 1] = (before, time.monotonic())
        return found

    def timed_sample(*args: Any, **options: Any) -> Any:
        sampling[len(handed_out) - 1] = time.monotonic()
        return sample(*args, **options)

    llm.collective_rpc("start_clock")
    executor.execute_model, executor.sample_tokens, scheduler.get_grammar_bitmask = timed_run, timed_sample, timed_mask
    generate(llm, asks)
    (forwards,) = llm.collective_rpc("clock")
    return [Timed(handed_out[at][1], handed_out[at][0], span, sampling[at], forwards[at]) for at, span in masks.items()]
