"""Mask rows applied to logits in place, with the facts of what the model wrote there."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ninfer_kernels.bits import facts_of, legal_block

BLOCK = 8192
"""Tokens of one program: 256 mask words."""


def apply_mask(logits: torch.Tensor, words: torch.Tensor, row_of: torch.Tensor, *, block: int = BLOCK) -> torch.Tensor:
    """Set to minus infinity every logit whose mask bit is 0, and tell the facts of the legal ones.

    Formula:  logits[row_of[r], t] = -inf  where bit(words[r], t) == 0 or t >= 32 * W;
              facts[r] = 1 if a legal logit is finite, plus 2 if one is NaN or +inf.
    Shapes:   logits [L, V] f32|bf16|f16, columns contiguous; words [R, W] i32, columns contiguous; row_of [R] i32,
              distinct; -1 leaves a mask out.
    Returns:  facts [R] i32, 0 for a mask that is left out.
    Moves:    R * V / 8 bytes of masks, the legal logits once in, the illegal ones once out.
    Effects:  writes logits in place; other rows are untouched; no synchronisation.
    Source:   contract MSK-1, SMP-1, SMP-4; oracle: reference.apply_mask.
    """
    facts = torch.zeros(len(words), dtype=torch.int32, device=logits.device)
    size = logits.shape[1]
    block = block_for(size, block)
    grid = (len(words), triton.cdiv(size, block))
    _apply_mask[grid](
        logits, logits.stride(0), words, words.stride(0), words.shape[1], row_of, facts, size, BLOCK=block
    )  # fmt: skip
    return facts


def block_for(size: int, most: int) -> int:
    """Tokens of one program: no more than the vocabulary has, rounded up to a power of two."""
    rounded: int = triton.next_power_of_2(size)
    return min(most, rounded)


@triton.jit
def _apply_mask(logits, row_stride, words, word_stride, num_words, row_of, facts, size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = tl.program_id(1) * BLOCK
    at = start + tl.arange(0, BLOCK)
    index = tl.load(row_of + row).to(tl.int64)
    # A mask that is left out covers nothing.
    size = tl.where(index < 0, 0, size)
    legal = legal_block(words + row * word_stride, num_words, start, size, BLOCK)
    place = logits + index * row_stride + at
    values = tl.load(place, mask=legal, other=0.0).to(tl.float32)
    tl.store(place, float("-inf"), mask=(at < size) & ~legal)
    tl.atomic_or(facts + row, facts_of(values, legal))
