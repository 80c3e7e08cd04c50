"""Distributions that drafts were sampled from, as probabilities or as the draft model's own logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ninfer_kernels.masking import BLOCK, block_for


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """q of every draft: of draft i of request b, q[t] is told by v = values[slab_of[b], i, t]; 0 from V' on.

    Without `tops` q[t] = v; with them q[t] = exp((v - tops[b, i]) * scales[b]) / totals[b, i].
    """

    values: torch.Tensor
    """f32|bf16|f16 [S, K, V'], columns contiguous."""
    slab_of: torch.Tensor
    """i32 [B]."""
    tops: torch.Tensor | None = None
    """f32 [B, K]."""
    scales: torch.Tensor | None = None
    """f32 [B]."""
    totals: torch.Tensor | None = None
    """f64 [B, K]."""

    @classmethod
    def of_probabilities(cls, values: torch.Tensor) -> Proposal:
        """q itself, [B, K, V]."""
        return cls(values, torch.arange(len(values), dtype=torch.int32, device=values.device))


def proposal_of_logits(
    values: torch.Tensor,
    slab_of: torch.Tensor,
    temperature: torch.Tensor,
    num_drafts: torch.Tensor,
    *,
    block: int = BLOCK,
) -> Proposal:
    """q of drafts that were sampled from logits at a temperature, without a copy of them.

    Formula:  q of draft i of request b = softmax(values[slab_of[b], i] / temperature[b]), for i < num_drafts[b];
              a temperature below 1e-5 counts as 1: a greedy target needs no q.
    Shapes:   values [S, K, V'] f32|bf16|f16, columns contiguous; slab_of, num_drafts [B] i32; temperature [B] f32.
    Moves:    the logits of each draft, twice.
    Source:   contract SPC-1, SPC-2.
    """
    count, most = len(slab_of), values.shape[1]
    tops = torch.empty(count, most, dtype=torch.float32, device=values.device)
    totals = torch.empty(count, most, dtype=torch.float64, device=values.device)
    scales = torch.where(temperature < 1e-5, 1.0, 1.0 / temperature)
    _survey_proposals[(count, most)](
        values, values.stride(0), values.stride(1), slab_of, scales, num_drafts, tops, totals, values.shape[2],
        BLOCK=block_for(values.shape[2], block),
    )  # fmt: skip
    return Proposal(values, slab_of, tops, scales, totals)


@triton.jit
def _survey_proposals(
    values, slab_stride, position_stride, slab_of, scales, num_drafts, tops, totals, size, BLOCK: tl.constexpr
):
    request = tl.program_id(0)
    index = tl.program_id(1)
    if index < tl.load(num_drafts + request):
        row = values + tl.load(slab_of + request).to(tl.int64) * slab_stride + index * position_stride
        at = tl.arange(0, BLOCK)
        scale = tl.load(scales + request)
        top = tl.zeros([], dtype=tl.float32) - float("inf")
        for start in range(0, size, BLOCK):
            found = tl.load(row + start + at, mask=start + at < size, other=float("-inf")).to(tl.float32)
            top = tl.maximum(top, tl.max(found, axis=0))
        total = tl.zeros([], dtype=tl.float64)
        for start in range(0, size, BLOCK):
            found = tl.load(row + start + at, mask=start + at < size, other=float("-inf")).to(tl.float32)
            total += tl.sum(tl.exp((found - top) * scale).to(tl.float64), axis=0)
        place = request * tl.num_programs(1) + index
        tl.store(tops + place, top)
        tl.store(totals + place, total)
