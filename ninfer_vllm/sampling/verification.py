"""One row's step: drafts accepted or corrected by the target, and the bonus token behind them (SPC-2 to SPC-5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ninfer_kernels.uniforms import Purpose, uniform

from ninfer_vllm.sampling.faults import RowFault
from ninfer_vllm.sampling.targets import Target

Proposal = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """What a step gives a row: its tokens, and the fault met right behind them, if one was reached."""

    tokens: tuple[int, ...]
    fault: RowFault | None = None


def verify(
    target_at: Callable[[int], Target | RowFault],
    drafts: Sequence[int],
    proposal: Proposal | None,
    seed: int,
    position: int,
) -> Step:
    """Verify a row's drafts against its targets; a row without drafts just draws.

    Formula:  draft d at i is accepted with probability min(1, p_i(d) / q_i(d)); the first rejected one is replaced by a
              draw from the positive part of p_i - q_i; behind the last accepted one a draw from p. Without a proposal
              distribution q_i is one-hot at d. An illegal draft has p(d) = 0 and is rejected like any other; draft -1
              proposes nothing, so what replaces it is drawn from p.
    Shapes:   `target_at(i)` gives the target behind i drafts, asked only for positions that are reached;
              proposal [drafts, V], rows sum to 1, untouched.
    Units:    `position` is the place of the step's first token in its sequence.
    """
    for index, draft in enumerate(drafts):
        target = target_at(index)
        if isinstance(target, RowFault):
            return Step(tuple(drafts[:index]), target)
        row = None if proposal is None else proposal[index]
        if not _accepts(target, draft, row, uniform(seed, position + index, Purpose.ACCEPT)):
            number = uniform(seed, position + index, Purpose.CORRECT)
            return Step((*drafts[:index], residual(target, draft, row).draw(number)))
    target = target_at(len(drafts))
    if isinstance(target, RowFault):
        return Step(tuple(drafts), target)
    return Step((*drafts, target.draw(uniform(seed, position + len(drafts), Purpose.DRAW))))


def residual(target: Target, draft: int, proposal: Proposal | None) -> Target:
    """The distribution of the token in place of a rejected draft: the positive part of p - q, in proportion.

    Where rounding leaves nothing of it, p and q are equal for all that can be told, and p is drawn from.
    """
    if draft < 0:
        return target
    if proposal is None:
        left = target.weights * (target.ids != draft)
    else:
        left = (target.weights / target.total - proposal[target.ids]).clip(min=0)
    found = Target.of(target.ids, left)
    return found if found.total > 0 else target


def _accepts(target: Target, draft: int, proposal: Proposal | None, number: float) -> bool:
    likely = target.probability(draft)
    if likely == 0:
        return False
    return number * (1.0 if proposal is None else float(proposal[draft])) < likely
