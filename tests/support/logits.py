"""Logits and mask words for tests of kernels: strided, tied, with rows that belong to nobody."""

from __future__ import annotations

from dataclasses import dataclass

import torch

PADDING = 5
"""Columns behind the vocabulary and in front of the next row."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of logits inside a wider buffer, and masks for some of them."""

    buffer: torch.Tensor
    """[rows, V + PADDING]: NaN outside the logits."""
    logits: torch.Tensor
    """[rows, V], a view of the buffer; its rows are not contiguous with each other."""
    words: torch.Tensor
    """i32 [masks, W], a view too."""
    row_of: torch.Tensor
    """i32 [masks]."""


def batch_of(
    size: int, *, num_rows: int, masked: list[int], share: float, dtype: torch.dtype, seed: int, levels: int = 0
) -> Batch:
    """Random logits; `share` of the tokens of each mask is legal, at least one; `levels` values only, if any."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(num_rows, size, generator=generator) * 2
    if levels:
        values = torch.randint(levels, (num_rows, size), generator=generator) - levels / 2
    buffer = torch.full((num_rows, size + PADDING), torch.nan, dtype=dtype)
    buffer[:, :size] = values.to(dtype)
    legal = torch.rand(len(masked), size, generator=generator) < share
    legal[torch.arange(len(masked)), torch.randint(size, (len(masked),), generator=generator)] = True
    words = torch.full((len(masked), -(-size // 32) + 2), -1, dtype=torch.int32)
    words[:, :-2] = packed(legal)
    return Batch(buffer, buffer[:, :size], words[:, :-2], torch.tensor(masked, dtype=torch.int32))


def packed(legal: torch.Tensor) -> torch.Tensor:
    """i32 [rows, ceil(V / 32)] of bool [rows, V]: bit t % 32 of word t // 32."""
    rows, size = legal.shape
    width = -(-size // 32)
    bits = torch.zeros(rows, width * 32, dtype=torch.int64)
    bits[:, :size] = legal
    values = (bits.view(rows, width, 32) << torch.arange(32)).sum(-1)
    return torch.where(values >= 1 << 31, values - (1 << 32), values).to(torch.int32)
