"""The time a session takes along given tokens, step by step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ninfer_vllm.errors import InvalidContinuation
from ninfer_vllm.masks.bits import MaskRow
from ninfer_vllm.session.session import OutputSession


@dataclass(frozen=True, slots=True)
class WalkTimings:
    """Wall time of one walk, in nanoseconds.

    `first_mask_ns` runs from the constraint to the first mask. `accept_ns[i]` is token i, previewed and committed;
    `mask_ns[i]` is the mask behind it, absent behind an end token.
    """

    first_mask_ns: int
    mask_ns: list[int]
    accept_ns: list[int]


def walk_on(
    session: OutputSession, tokens: Sequence[int], row: MaskRow, spellings: Sequence[bytes]
) -> tuple[list[int], list[int]]:
    """Commit the tokens one by one; the times of the masks and of the tokens.

    Errors: InvalidContinuation at the first token that is not legal.
    """
    masks: list[int] = []
    accepts: list[int] = []
    offset = 0
    for index, token in enumerate(tokens):
        if session.terminated:
            raise InvalidContinuation(f"token {index} (id {token}) follows the end token", offset)
        started = time.perf_counter_ns()
        legal = session.preview((token,))
        session.commit(legal)
        accepts.append(time.perf_counter_ns() - started)
        if not legal:
            raise InvalidContinuation(f"token {index} (id {token}) is not legal", offset)
        offset += len(spellings[token])
        if not session.terminated:
            started = time.perf_counter_ns()
            session.look_ahead((), (row,))
            masks.append(time.perf_counter_ns() - started)
    return masks, accepts
