"""Inputs of the kernels on a device: one batch of speculative decoding of a given shape."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tests.support.logits import packed


@dataclass(frozen=True, slots=True)
class Shape:
    """Requests, drafts of each, tokens of the vocabulary."""

    batch: int
    drafts: int
    size: int

    @property
    def rows(self) -> int:
        """Rows of logits."""
        return self.batch * (self.drafts + 1)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that the kernels read, on the device."""

    shape: Shape
    logits: torch.Tensor
    words: torch.Tensor
    row_of: torch.Tensor
    temperature: torch.Tensor
    top_k: torch.Tensor
    min_p: torch.Tensor
    top_p: torch.Tensor
    first_rows: torch.Tensor
    num_drafts: torch.Tensor
    drafts: torch.Tensor
    proposal: torch.Tensor
    seeds: torch.Tensor
    positions: torch.Tensor


def inputs_of(shape: Shape, device: torch.device, *, dtype: torch.dtype = torch.float32, share: float = 0.97) -> Inputs:
    """Random inputs; `share` of the vocabulary is legal in each row: 0.97 is what a JSON string leaves."""
    generator = torch.Generator(device).manual_seed(shape.rows + shape.size)

    def rand(*sizes: int) -> torch.Tensor:
        return torch.rand(*sizes, generator=generator, device=device)

    def column(value: float, wanted: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.full((shape.rows,), value, dtype=wanted, device=device)

    rows, size = shape.rows, shape.size
    logits = (torch.randn(rows, size, generator=generator, device=device) * 3).to(dtype)
    legal = (rand(min(rows, 16), size) < share).cpu()
    legal[:, 0] = True
    words = packed(legal).to(device)[torch.arange(rows, device=device) % len(legal)]
    proposal = rand(shape.batch, max(shape.drafts, 1), size) ** 8
    proposal /= proposal.sum(-1, keepdim=True)
    drafts = proposal.reshape(-1, size).argmax(-1).reshape(shape.batch, -1)[:, : shape.drafts]
    firsts = torch.arange(shape.batch, device=device, dtype=torch.int32) * (shape.drafts + 1)
    return Inputs(
        shape, logits, words, torch.arange(rows, dtype=torch.int32, device=device), column(0.8),
        column(20, torch.int32), column(0.0), column(0.95), firsts, torch.full_like(firsts, shape.drafts),
        drafts.to(torch.int32).contiguous(), proposal, torch.arange(shape.batch, device=device),
        torch.arange(shape.batch, device=device) * 3,
    )  # fmt: skip
