"""Masks applied to logits on the CPU."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ninfer_vllm.masks.bits import empty_row, row_of
from ninfer_vllm.sampling.masking import mask_logits

SIZES = [1, 31, 32, 33, 64, 1000]
TYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.contract("MSK-1", "SMP-1")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_exactly_the_illegal_logits_become_minus_infinity(size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(size)
    logits = torch.randn(4, size, generator=generator).to(dtype)
    legal = [{0}, set(range(0, size, 3))]
    before = logits.clone()
    assert mask_logits(logits, [2, 0], [row_of(ids, size) for ids in legal]) == [True, True]
    for row, ids in ((2, legal[0]), (0, legal[1])):
        for token in range(size):
            assert float(logits[row, token]) == (float(before[row, token]) if token in ids else -math.inf)
    assert torch.equal(logits[[1, 3]], before[[1, 3]])


@pytest.mark.contract("MSK-1", "MSK-5")
def test_logits_wider_than_the_mask_are_illegal_and_bits_beyond_the_logits_are_ignored() -> None:
    logits = torch.zeros(2, 40)
    filler = np.full(2, -1, dtype=np.int32)
    assert mask_logits(logits, [0, 1], [filler[:1], filler]) == [True, True]
    assert logits[0].isfinite().tolist() == [True] * 32 + [False] * 8
    assert logits[1].isfinite().all()


@pytest.mark.contract("SMP-4")
def test_soundness_is_that_of_the_legal_logits() -> None:
    legal = row_of([1, 2], 33)
    values = {math.nan: False, math.inf: False, -math.inf: True, 0.0: True}
    for value, sound in values.items():
        logits = torch.zeros(1, 33)
        logits[0, 2] = value
        assert mask_logits(logits, [0], [legal]) == [sound]
        illegal = torch.zeros(1, 33)
        illegal[0, 3] = value
        assert mask_logits(illegal, [0], [legal]) == [True]
    assert mask_logits(torch.full((1, 33), -math.inf), [0], [legal]) == [False]
    assert mask_logits(torch.zeros(1, 33), [0], [empty_row(33)]) == [False]
