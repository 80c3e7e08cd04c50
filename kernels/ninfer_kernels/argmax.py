"""The largest legal logit of each row, the smallest id at a tie, without writing a masked copy."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ninfer_kernels.bits import facts_of, legal_block
from ninfer_kernels.masking import BLOCK, block_for


def masked_argmax(
    logits: torch.Tensor, words: torch.Tensor, row_of: torch.Tensor, *, block: int = BLOCK
) -> tuple[torch.Tensor, torch.Tensor]:
    """The greedy token of each row over its legal set.

    Formula:  ids[r] = min argmax {logits[row_of[r], t] : bit(words[r], t) == 1}, or -1 if facts[r] != 1;
              facts as in `masking.apply_mask`.
    Shapes:   as in `masking.apply_mask`; logits are only read.
    Returns:  ids [R] i32, facts [R] i32.
    Moves:    R * V / 8 bytes of masks and the legal logits, once in.
    Source:   contract SMP-1, SMP-2, SPC-6; oracle: reference.masked_argmax.
    """
    num_rows, size, device = len(words), logits.shape[1], logits.device
    block = block_for(size, block)
    num_blocks = triton.cdiv(size, block)
    values = torch.empty(num_rows, num_blocks, dtype=torch.float32, device=device)
    places = torch.empty(num_rows, num_blocks, dtype=torch.int32, device=device)
    facts = torch.zeros(num_rows, dtype=torch.int32, device=device)
    ids = torch.empty(num_rows, dtype=torch.int32, device=device)
    _best_of_blocks[(num_rows, num_blocks)](
        logits, logits.stride(0), words, words.stride(0), words.shape[1], row_of, values, places, facts, size,
        BLOCK=block,
    )  # fmt: skip
    _best_of_rows[(num_rows,)](values, places, facts, ids, num_blocks, BLOCKS=triton.next_power_of_2(num_blocks))
    return ids, facts


@triton.jit
def _best_of_blocks(
    logits, row_stride, words, word_stride, num_words, row_of, values, places, facts, size, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    start = tl.program_id(1) * BLOCK
    legal = legal_block(words + row * word_stride, num_words, start, size, BLOCK)
    place = logits + tl.load(row_of + row).to(tl.int64) * row_stride + start + tl.arange(0, BLOCK)
    found = tl.load(place, mask=legal, other=0.0).to(tl.float32)
    tl.atomic_or(facts + row, facts_of(found, legal))
    comparable = tl.where(legal & (found == found), found, float("-inf"))  # noqa: PLR0124 - the test for NaN
    best, at = tl.max(comparable, axis=0, return_indices=True, return_indices_tie_break_left=True)
    out = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(values + out, best)
    tl.store(places + out, start + at)


@triton.jit
def _best_of_rows(values, places, facts, ids, num_blocks, BLOCKS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCKS)
    found = tl.load(values + row * num_blocks + at, mask=at < num_blocks, other=float("-inf"))
    _, best = tl.max(found, axis=0, return_indices=True, return_indices_tie_break_left=True)
    token = tl.load(places + row * num_blocks + best)
    tl.store(ids + row, tl.where(tl.load(facts + row) == 1, token, -1))
