"""Pearson's test of counts against expected shares, with a bound that needs no table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

LEVEL = 1e-6
"""Chance of calling a right sampler wrong, for each test; all numbers come from fixed seeds."""

LEAST_EXPECTED = 10.0
"""Cells with a smaller expected count are put together."""


def is_consistent(counts: Mapping[Hashable, int], shares: Mapping[Hashable, float], level: float = LEVEL) -> bool:
    """Whether the counts agree with the shares at the level; a count where the share is 0 never does."""
    if any(shares.get(cell, 0.0) == 0 for cell, count in counts.items() if count):
        return False
    total = sum(counts.values())
    cells = [(counts.get(cell, 0), share * total) for cell, share in shares.items()]
    rare = [pair for pair in cells if pair[1] < LEAST_EXPECTED]
    pooled = [pair for pair in cells if pair[1] >= LEAST_EXPECTED]
    if rare:
        pooled.append((sum(seen for seen, _ in rare), sum(expected for _, expected in rare)))
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in pooled if expected > 0)
    return statistic <= _upper_bound(len(pooled) - 1, level)


def _upper_bound(freedom: int, level: float) -> float:
    """A value that a chi-square variable exceeds with probability at most `level` (Laurent and Massart 2000)."""
    depth = -math.log(level)
    return freedom + 2 * math.sqrt(freedom * depth) + 2 * depth
