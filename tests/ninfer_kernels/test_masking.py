"""The mask kernel and the masked argmax against their references."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
import torch
from ninfer_kernels import reference

from tests.support.logits import PADDING, batch_of, packed

SIZES = [1, 31, 33, 151_936, 248_320]
TYPES = [torch.float32, torch.bfloat16, torch.float16]
each_size = pytest.mark.parametrize("size", SIZES)
each_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


def block_for(size: int) -> int:
    """Several blocks a row, the last one incomplete, without a long wait in the interpreter."""
    return 65_536 if size > 1000 else 16


@pytest.mark.contract("MSK-1", "SMP-1", "SMP-4")
@each_size
@each_type
def test_mask_is_applied_to_its_rows_alone(kernels: dict[str, ModuleType], size: int, dtype: torch.dtype) -> None:
    batch = batch_of(size, num_rows=3, masked=[2, 0], share=0.4, dtype=dtype, seed=size)
    expected, facts = reference.apply_mask(batch.logits, batch.words, batch.row_of)
    found = kernels["masking"].apply_mask(batch.logits, batch.words, batch.row_of, block=block_for(size))
    assert found.tolist() == facts == [1, 1]
    assert torch.equal(batch.logits, expected)
    assert batch.buffer[:, size:].isnan().all()
    assert batch.buffer.shape[1] == size + PADDING


@pytest.mark.contract("SMP-2", "SPC-6", "SMP-1")
@each_size
@each_type
def test_argmax_is_the_smallest_of_the_best_legal_ids(
    kernels: dict[str, ModuleType], size: int, dtype: torch.dtype
) -> None:
    batch = batch_of(size, num_rows=3, masked=[1, 2], share=0.3, dtype=dtype, seed=size, levels=3)
    before = batch.logits.clone()
    ids, facts = kernels["argmax"].masked_argmax(batch.logits, batch.words, batch.row_of, block=block_for(size))
    expected = [
        reference.masked_argmax(batch.logits[row], words)
        for row, words in zip(batch.row_of.tolist(), batch.words, strict=True)
    ]
    assert ids.tolist() == expected
    assert facts.tolist() == [1, 1]
    assert torch.equal(batch.logits, before)


@pytest.mark.contract("SMP-4", "MSK-5")
def test_rows_without_a_sound_legal_logit_have_no_token(kernels: dict[str, ModuleType]) -> None:
    values = [math.nan, math.inf, -math.inf, 0.0]
    legal = torch.zeros(2 * len(values) + 2, 40, dtype=torch.bool)
    legal[: len(values), [7, 39]] = True
    legal[len(values) : -1, 8] = True
    logits = torch.zeros(len(legal), 40)
    # The same value among the legal tokens, beside a finite one, and among the illegal ones; then no legal token, and
    # legal tokens without any weight.
    logits[: len(values), 39] = logits[len(values) : -2, 39] = torch.tensor(values)
    logits[-2] = -math.inf
    row_of = torch.arange(len(legal), dtype=torch.int32)
    ids, facts = kernels["argmax"].masked_argmax(logits, packed(legal), row_of, block=16)
    assert facts.tolist() == [3, 3, 1, 1, 1, 1, 1, 1, 0, 0]
    assert ids.tolist() == [-1, -1, 7, 7, 8, 8, 8, 8, -1, -1]
    assert kernels["masking"].apply_mask(logits, packed(legal), row_of, block=16).tolist() == facts.tolist()


@pytest.mark.contract("MSK-1")
def test_tokens_behind_the_last_word_are_illegal(kernels: dict[str, ModuleType]) -> None:
    logits = torch.arange(70.0).reshape(1, 70)
    words = torch.full((1, 2), -1, dtype=torch.int32)
    row_of = torch.zeros(1, dtype=torch.int32)
    assert kernels["argmax"].masked_argmax(logits, words, row_of, block=32)[0].tolist() == [63]
    kernels["masking"].apply_mask(logits, words, row_of, block=32)
    assert logits.isfinite().sum() == 64


@pytest.mark.contract("MSK-2", "MSK-5")
def test_mask_that_is_left_out_touches_and_finds_nothing(kernels: dict[str, ModuleType]) -> None:
    batch = batch_of(40, num_rows=2, masked=[1, 0], share=0.4, dtype=torch.float32, seed=3)
    row_of = torch.tensor([-1, 0], dtype=torch.int32)
    before = batch.logits[1].clone()
    assert kernels["masking"].apply_mask(batch.logits, batch.words, row_of, block=16).tolist() == [0, 1]
    assert torch.equal(batch.logits[1], before)
    assert batch.logits[0].isinf().any()
    plain = [torch.ones(2), torch.zeros(2, dtype=torch.int32), torch.zeros(2), torch.ones(2)]
    found = kernels["candidates"].select_candidates(batch.logits, batch.words, row_of, *plain, block=16)
    assert found.facts.tolist() == [0, 1]
