"""Mask rows for the drafts of one step, by the algorithm of MSK-4."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.errors import MatcherInconsistency
from ninfer_vllm.masks.bits import MaskRow, is_legal
from ninfer_vllm.masks.rows import RowState, StepRows

FILLER = -1
"""Word of a filler row: every bit set, so a softmax over it stays finite (MSK-5)."""


def look_ahead(matcher: Matcher, drafts: Sequence[int], rows: Sequence[MaskRow]) -> StepRows:
    """Fill `rows[i]` with the legal set after the first i drafts and leave the matcher where it was.

    The position of the first illegal draft is itself READY: the target distribution that rejects the draft is right.
    What follows an illegal draft, a dead end or EOS is UNREACHABLE. Draft -1 (the host's padding) is illegal.

    Shapes: `rows` holds len(drafts) + 1 rows of ceil(V/32) words, overwritten.
    Source: contract MSK-2 to MSK-5.
    """
    states: list[RowState] = []
    accepted = 0
    for position in range(len(drafts) + 1):
        if matcher.terminated:
            break
        if not matcher.fill(rows[position]):
            states.append(RowState.DEAD_END)
            rows[position][:] = FILLER
            break
        states.append(RowState.READY)
        if position == len(drafts) or not is_legal(rows[position], drafts[position]):
            break
        if not matcher.accept(drafts[position]):
            raise MatcherInconsistency(f"token {drafts[position]} is in the mask but was not accepted")
        accepted += 1
    if accepted:
        matcher.rollback(accepted)
    for row in rows[len(states) :]:
        row[:] = FILLER
        states.append(RowState.UNREACHABLE)
    return StepRows(tuple(states))
