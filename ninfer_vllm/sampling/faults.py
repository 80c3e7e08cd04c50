"""Why a row has no token to give: two different things, never mixed up (SMP-4)."""

from __future__ import annotations

from enum import Enum


class RowFault(Enum):
    """A row that can not be sampled."""

    EMPTY = "empty"
    """Nothing is left to choose from, although the model's logits are sound."""
    NON_FINITE = "non_finite"
    """The logits of the legal tokens hold NaN or plus infinity, or nothing finite."""
