"""Times of the kernels, the bytes that they must move, and the host's kernels for the same work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from ninfer_kernels.argmax import masked_argmax
from ninfer_kernels.candidates import select_candidates
from ninfer_kernels.masking import apply_mask
from ninfer_kernels.proposals import Proposal
from ninfer_kernels.verification import verify_drafts

from tests.gpu import host
from tests.gpu.inputs import Inputs, Shape, inputs_of

REPEATS = 20


@dataclass(frozen=True, slots=True)
class Timing:
    """One operation on one shape."""

    operation: str
    shape: Shape
    microseconds: float
    floor_bytes: int
    """Bytes that no implementation can save: each mask and each legal logit once."""
    host_microseconds: float | None


def time_all(shape: Shape, device: torch.device) -> list[Timing]:
    """Every operation on one shape."""
    given = inputs_of(shape, device)
    masks = given.words.nbytes
    once = masks + given.logits.nbytes
    masked = given.logits.clone()
    candidates = select_candidates(
        given.logits, given.words, given.row_of, given.temperature, given.top_k, given.min_p, given.top_p
    )

    def verify(proposal: Proposal | None) -> Callable[[], object]:
        return lambda: verify_drafts(
            given.logits, given.words, given.row_of, candidates, given.first_rows, given.num_drafts, given.drafts,
            proposal, given.seeds, given.positions,
        )  # fmt: skip

    drawn = shape.batch * shape.size * given.logits.element_size()
    work: list[tuple[str, Callable[[], object], int, Callable[[Inputs], Callable[[], object] | None]]] = [
        ("apply_mask", lambda: apply_mask(masked, given.words, given.row_of), once, host.apply_mask),
        ("masked_argmax", lambda: masked_argmax(given.logits, given.words, given.row_of), once, host.argmax),
        ("select_candidates", lambda: select_candidates(
            given.logits, given.words, given.row_of, given.temperature, given.top_k, given.min_p, given.top_p
        ), once, host.top_k_top_p),
        ("verify one-hot", verify(None), drawn, host.rejection_one_hot),
    ]  # fmt: skip
    if shape.drafts:
        work.append(
            ("verify sparse", verify(Proposal.of_probabilities(given.proposal)), 2 * drawn, host.rejection_sparse)
        )
    return [
        Timing(name, shape, timed(ours, device), floor, _optional(theirs(given), device))
        for name, ours, floor, theirs in work
    ]


def timed(function: Callable[[], object], device: torch.device) -> float:
    """Median time of one call in microseconds; the caches of a GPU are cold."""
    function()
    if device.type == "cpu":
        started = time.perf_counter()
        function()
        return (time.perf_counter() - started) * 1e6
    cold = torch.empty(256 << 20, dtype=torch.int8, device=device)
    samples = []
    for _ in range(REPEATS):
        cold.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3)
    return sorted(samples)[REPEATS // 2]


def _optional(function: Callable[[], object] | None, device: torch.device) -> float | None:
    return None if function is None else timed(function, device)
