"""Very many equal rows through the host's sampler in little time: what equal rows share is computed once.

Theory of operation. The product computes a row's target and residual from the row alone, and numbers from the seed,
the position and the purpose alone. So each distinct target and residual is kept from the first time on that the
product computes it, and the numbers come from a table that is made for all rows at once and compared with the
product's own. Everything else in the step runs row by row as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ninfer_kernels.uniforms import KEY_STEPS, MANTISSA_BITS, MULTIPLIERS, ROUNDS, WORD, Purpose, uniform

from ninfer_vllm.host import worker_step
from ninfer_vllm.sampling import verification

NUM_POSITIONS = 4
CHECKED_EVERY = 997
Words = npt.NDArray[np.uint64]


@contextmanager
def sharing_equal_rows(num_rows: int) -> Iterator[None]:
    """While inside, rows with the seeds 0 to `num_rows` - 1 at the first positions are verified as told above."""
    numbers = uniforms(num_rows)

    def number_of(seed: int, position: int, purpose: Purpose) -> float:
        return float(numbers[purpose, position, seed])

    def row_key(logits: Any, parameters: Any) -> Hashable:
        return logits.tobytes(), parameters

    def residual_key(target: Any, draft: int, proposal: Any) -> Hashable:
        # Equal targets are one object here, which the first table keeps.
        return id(target), draft, None if proposal is None else proposal.tobytes()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_step, "target_of", _once(worker_step.target_of, row_key))
        patch.setattr(verification, "residual", _once(verification.residual, residual_key))
        patch.setattr(verification, "uniform", number_of)
        yield


@cache
def uniforms(num_seeds: int) -> npt.NDArray[np.float64]:
    """[purpose, position, seed]: the product's numbers, compared with it at every so many seeds."""
    seeds = np.arange(num_seeds, dtype=np.uint64)
    found = np.stack([[_uniforms(seeds, position, kind) for position in range(NUM_POSITIONS)] for kind in Purpose])
    for kind in Purpose:
        for position in range(NUM_POSITIONS):
            for seed in range(0, num_seeds, CHECKED_EVERY):
                assert found[kind, position, seed] == uniform(seed, position, kind)
    return found


def _uniforms(seeds: Words, position: int, purpose: Purpose) -> npt.NDArray[np.float64]:
    """Philox 4x32 on arrays."""
    shift, word = np.uint64(32), np.uint64(WORD)
    low, high = seeds & word, seeds >> shift
    first, second = np.full_like(seeds, position), np.zeros_like(seeds)
    third, fourth = np.full_like(seeds, int(purpose)), np.zeros_like(seeds)
    for _ in range(ROUNDS):
        left, right = first * np.uint64(MULTIPLIERS[0]), third * np.uint64(MULTIPLIERS[1])
        first, second = (right >> shift) ^ second ^ low, right & word
        third, fourth = (left >> shift) ^ fourth ^ high, left & word
        low, high = low + np.uint64(KEY_STEPS[0]) & word, high + np.uint64(KEY_STEPS[1]) & word
    return ((first << np.uint64(21) | second >> np.uint64(11)) + 0.5) / (1 << MANTISSA_BITS)


def _once(function: Callable[..., Any], key_of: Callable[..., Hashable]) -> Callable[..., Any]:
    known: dict[Hashable, Any] = {}

    def call(*arguments: Any) -> Any:
        key = key_of(*arguments)
        if key not in known:
            known[key] = function(*arguments)
        return known[key]

    return call
