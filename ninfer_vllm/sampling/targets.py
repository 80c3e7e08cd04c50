"""The target distribution of one position, in double precision (SMP-2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninfer_vllm.sampling.faults import RowFault
from ninfer_vllm.sampling.parameters import Parameters

Logits = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Doubles = npt.NDArray[np.float64]

SORTED_FIRST = 4096
"""Candidates that top-p looks through before it sorts them all: sharp distributions end among them."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Probabilities of the candidates of one position; every other token has none."""

    ids: npt.NDArray[np.int64]
    """[candidates], ascending."""
    weights: Doubles
    """[candidates], not negative, at least one positive; not normalised."""
    total: float
    """The sum of the weights."""

    @classmethod
    def of(cls, ids: npt.NDArray[np.int64], weights: Doubles) -> Target:
        """A target whose weights are summed here."""
        return cls(ids, weights, float(weights.sum()))

    def probability(self, token: int) -> float:
        """p of one token; 0 for an illegal one and for ids outside the vocabulary."""
        at = int(self.ids.searchsorted(token))
        if at == len(self.ids) or self.ids[at] != token:
            return 0.0
        return float(self.weights[at]) / self.total

    def draw(self, uniform: float) -> int:
        """The token whose share of the cumulated weights, by ascending id, holds `uniform`."""
        cumulated = self.weights.cumsum()
        at = int(cumulated.searchsorted(uniform * cumulated[-1], side="right"))
        # Rounding may lead past the end; the last token that has any weight is then the one.
        return int(self.ids[at if at < len(self.ids) else self.weights.nonzero()[0][-1]])


def target_of(logits: Logits, parameters: Parameters) -> Target | RowFault:
    """The candidates of a row, in the order temperature, top-k, min-p, top-p.

    Formula:  A = {t : z[t] > -inf};  C = the top_k of A by (z descending, id ascending);
              w[t] = exp((z[t] - max z) / T);  min-p keeps w >= min_p * max w;
              top-p keeps the shortest beginning of C whose share is at least top_p.
              Greedy: the largest z, the smallest id at a tie, alone.
    Shapes:   logits [V], penalties applied, illegal tokens -inf.
    Source:   contract SMP-2, SMP-3, SMP-4.
    """
    ids = np.flatnonzero(logits != -np.inf)
    if len(ids) == 0:
        return RowFault.EMPTY
    legal = logits[ids]
    top = legal.max()
    if not np.isfinite(top):
        return RowFault.NON_FINITE
    if parameters.is_greedy:
        return Target(ids[legal.argmax()].reshape(1), np.ones(1), 1.0)
    if 0 < parameters.top_k < len(ids):
        kept = _largest(legal, parameters.top_k)
        ids, legal = ids[kept], legal[kept]
    weights = np.exp((legal.astype(np.float64) - float(top)) / parameters.temperature)
    if parameters.min_p > 0:
        kept = weights >= parameters.min_p
        ids, legal, weights = ids[kept], legal[kept], weights[kept]
    if parameters.top_p < 1:
        kept = _heaviest(legal, weights, parameters.top_p)
        ids, weights = ids[kept], weights[kept]
    return Target.of(ids, weights)


def _largest(values: Logits, count: int) -> npt.NDArray[np.bool_]:
    """Which `count` values are the largest, earlier ones first at a tie."""
    bound = np.partition(values, len(values) - count)[len(values) - count]
    kept: npt.NDArray[np.bool_] = values > bound
    kept[np.flatnonzero(values == bound)[: count - np.count_nonzero(kept)]] = True
    return kept


def _heaviest(values: Logits, weights: Doubles, share: float) -> npt.NDArray[np.bool_]:
    """The shortest beginning, by falling value and then rising id, that holds the share."""
    total = weights.sum()
    places = np.arange(len(values))
    if len(values) > SORTED_FIRST:
        first = places[_largest(values, SORTED_FIRST)]
        places = first if weights[first].sum() >= share * total else places
    order = places[np.argsort(-values[places], kind="stable")]
    cumulated = weights[order].cumsum()
    wanted = cumulated - weights[order] < share * total
    # Whatever the rounding, the largest value stays.
    wanted[0] = True
    kept = np.zeros(len(values), dtype=np.bool_)
    kept[order[wanted]] = True
    return kept
