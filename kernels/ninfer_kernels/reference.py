"""Plain references of the kernels, one row at a time and in double precision: what each contract's formula says."""

from __future__ import annotations

import torch

from ninfer_kernels.uniforms import Purpose, uniform

Distribution = torch.Tensor
"""f64 [V]: probabilities."""


def legal_set(words: torch.Tensor, size: int) -> torch.Tensor:
    """bool [V]: the bits of one mask row; ids behind its last word are illegal."""
    ids = torch.arange(size)
    words = words.cpu()
    inside = ids < 32 * len(words)
    return inside & ((words[ids.clamp(max=32 * len(words) - 1) // 32] >> (ids % 32)) & 1 != 0)


def facts(row: torch.Tensor, legal: torch.Tensor) -> int:
    """1 if a legal logit is finite, plus 2 if one is NaN or +inf."""
    values = row.cpu().double()[legal]
    return int(values.isfinite().any()) + 2 * int((values.isnan() | (values == torch.inf)).any())


def apply_mask(logits: torch.Tensor, words: torch.Tensor, row_of: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """Masked copy of the logits, and the facts of each mask row."""
    result, found = logits.clone(), []
    for mask, index in zip(words, row_of.tolist(), strict=True):
        legal = legal_set(mask, logits.shape[1])
        found.append(facts(logits[index], legal))
        result[index, ~legal.to(logits.device)] = -torch.inf
    return result, found


def masked_argmax(row: torch.Tensor, words: torch.Tensor) -> int:
    """The smallest id of the largest legal logit, or -1 for a row that is not sound."""
    legal = legal_set(words, len(row))
    if facts(row, legal) != 1:
        return -1
    values = row.cpu().double().masked_fill(~legal, -torch.inf)
    return int((values == values.max()).nonzero()[0])


def target(
    row: torch.Tensor, words: torch.Tensor, *, temperature: float, top_k: int, min_p: float, top_p: float
) -> Distribution:
    """p of one sound row, by sorting everything."""
    legal = legal_set(words, len(row))
    values = row.cpu().double().masked_fill(~legal, -torch.inf)
    order = values.sort(descending=True, stable=True).indices
    order = order[: int((values > -torch.inf).sum())]
    if temperature < 1e-5:
        order = order[:1]
        temperature = 1.0
    elif top_k > 0:
        order = order[:top_k]
    weights = ((values[order] - values[order[0]]) / temperature).exp()
    order, weights = order[weights >= min_p], weights[weights >= min_p]
    before = weights.cumsum(0) - weights
    kept = before < top_p * weights.sum()
    kept[0] = True
    result = torch.zeros(len(row), dtype=torch.float64)
    result[order[kept]] = weights[kept] / weights[kept].sum()
    return result


def verify(
    targets: list[Distribution | int], drafts: list[int], proposal: torch.Tensor | None, seed: int, position: int
) -> tuple[list[int], int]:
    """Tokens of one request's step and its fault; a target that is a number is a fault (1 or 2)."""
    for index, draft in enumerate(drafts):
        p = targets[index]
        if isinstance(p, int):
            return drafts[:index], p
        q = None if proposal is None else proposal[index].cpu().double()
        likely = float(p[draft]) if 0 <= draft < len(p) else 0.0
        offered = 1.0 if q is None or likely == 0 else float(q[draft])
        if likely == 0 or uniform(seed, position + index, Purpose.ACCEPT) * offered >= likely:
            number = uniform(seed, position + index, Purpose.CORRECT)
            return [*drafts[:index], _drawn(_residual(p, draft, q), number)], 0
    p = targets[len(drafts)]
    if isinstance(p, int):
        return drafts, p
    return [*drafts, _drawn(p, uniform(seed, position + len(drafts), Purpose.DRAW))], 0


def _residual(p: Distribution, draft: int, q: Distribution | None) -> Distribution:
    if draft < 0:
        return p
    left = p.clone()
    if q is None:
        left[draft : draft + 1] = 0
    else:
        left = (p - q).clamp(min=0)
    return left if float(left.sum()) > 0 else p


def _drawn(weights: Distribution, number: float) -> int:
    passed = weights.cumsum(0)
    at = int((passed <= number * passed[-1]).sum())
    return min(at, int(weights.nonzero().max()))
