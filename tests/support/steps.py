"""The steps of constrained rows inside an engine whose worker runs beside the tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """What a row was sampled with, and how many tokens it got."""

    position: int
    num_tokens: int


@contextmanager
def noting_steps() -> Iterator[dict[int, list[Step]]]:
    """Note the steps of every row by its seed while inside."""
    from ninfer_vllm.host import worker_step

    verify = worker_step.verify
    steps: dict[int, list[Step]] = defaultdict(list)

    def verify_noted(targets: Any, drafts: Any, proposal: Any, seed: int, position: int) -> Any:
        found = verify(targets, drafts, proposal, seed, position)
        steps[seed].append(Step(position, len(found.tokens)))
        return found

    worker_step.verify = verify_noted
    try:
        yield steps
    finally:
        worker_step.verify = verify
