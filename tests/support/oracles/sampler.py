"""Sampling and speculative decoding in exact order and double precision, from the contract's text alone.

Plain lists and dictionaries over a small vocabulary; nothing here is shared with the product.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

Distribution = dict[int, float]


def penalised(
    logits: Sequence[float],
    prompt: Iterable[int],
    output: Sequence[int],
    *,
    presence: float = 0.0,
    frequency: float = 0.0,
    repetition: float = 1.0,
) -> list[float]:
    """Logits after the host's three penalties."""
    counts = Counter(output)
    seen = set(prompt) | set(output)
    result = []
    for token, value in enumerate(logits):
        if token in seen:
            value = value / repetition if value > 0 else value * repetition
        result.append(value - frequency * counts[token] - presence * (counts[token] > 0))
    return result


def target(
    logits: Sequence[float],
    legal: Iterable[int],
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    top_p: float = 1.0,
) -> Distribution:
    """p over the candidates: mask, temperature, top-k, min-p, top-p; one token where temperature is 0."""
    ranked = sorted((-logits[token], token) for token in legal if logits[token] > -math.inf)
    if temperature == 0:
        return {ranked[0][1]: 1.0}
    if top_k:
        ranked = ranked[:top_k]
    best = -ranked[0][0]
    weighted = [(token, math.exp((-negative - best) / temperature)) for negative, token in ranked]
    weighted = [(token, weight) for token, weight in weighted if weight >= min_p]
    whole = math.fsum(weight for _, weight in weighted)
    kept, before = [], 0.0
    for token, weight in weighted:
        if kept and before >= top_p * whole:
            break
        kept.append((token, weight))
        before += weight
    rest = math.fsum(weight for _, weight in kept)
    return {token: weight / rest for token, weight in sorted(kept)}


def at(distribution: Mapping[int, float], uniform: float) -> int:
    """The token whose share, by ascending id, holds `uniform`."""
    passed = 0.0
    for token in sorted(distribution):
        passed += distribution[token]
        if uniform < passed:
            return token
    return max(token for token, share in distribution.items() if share > 0)


def corrected(p: Distribution, q: Distribution) -> Distribution:
    """The residual: the positive part of p - q, normalised."""
    left = {token: max(share - q.get(token, 0.0), 0.0) for token, share in p.items()}
    whole = math.fsum(left.values())
    return {token: share / whole for token, share in left.items() if share > 0}


def step_distribution(
    targets: Sequence[Distribution], proposals: Sequence[Distribution]
) -> dict[tuple[int, ...], float]:
    """How likely each whole step is, where draft i is drawn from proposal i; targets depend on the position alone.

    `targets` has one more entry than `proposals`: the bonus token's.
    """
    found: Counter[tuple[int, ...]] = Counter()
    for drafts in itertools.product(*(list(q) for q in proposals)):
        chance = math.prod(q[draft] for q, draft in zip(proposals, drafts, strict=True))
        for index, draft in enumerate(drafts):
            p, q = targets[index], proposals[index]
            accepted = min(1.0, p.get(draft, 0.0) / q[draft])
            if accepted < 1:
                for token, share in corrected(p, q).items():
                    found[(*drafts[:index], token)] += chance * (1 - accepted) * share
            chance *= accepted
        for token, share in targets[-1].items():
            found[(*drafts, token)] += chance * share
    return {step: chance for step, chance in found.items() if chance > 0}
