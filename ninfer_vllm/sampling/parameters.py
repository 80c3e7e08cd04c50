"""What a request asks of its sampler."""

from __future__ import annotations

from dataclasses import dataclass

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy: the host's own bound."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Sampling parameters of one row; `top_k` 0 and `top_p` 1 are off."""

    temperature: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    top_p: float = 1.0

    @property
    def is_greedy(self) -> bool:
        """Whether the row takes the largest logit."""
        return self.temperature < GREEDY_BELOW
