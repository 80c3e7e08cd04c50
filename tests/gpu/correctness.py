"""Every kernel against its reference in double precision, on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from ninfer_kernels import reference
from ninfer_kernels.argmax import masked_argmax
from ninfer_kernels.candidates import Candidates, select_candidates
from ninfer_kernels.masking import apply_mask
from ninfer_kernels.proposals import Proposal, proposal_of_logits
from ninfer_kernels.verification import verify_drafts

from tests.gpu.inputs import Inputs, Shape, inputs_of

SETTINGS: list[dict[str, Any]] = [
    {"temperature": 1.0, "top_k": 0, "min_p": 0.0, "top_p": 1.0},
    {"temperature": 0.0, "top_k": 0, "min_p": 0.0, "top_p": 1.0},
    {"temperature": 0.7, "top_k": 20, "min_p": 0.05, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 0, "min_p": 0.0, "top_p": 0.6},
]
HEAT = 0.7
"""Temperature at which drafts were sampled from logits."""
TOLERANCE = 1e-4
"""Relative, of a probability: weights are single precision, their sums over a vocabulary double."""


def failures(shape: Shape, device: torch.device) -> Iterator[str]:
    """What disagrees, in words."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        given = inputs_of(shape, device, dtype=dtype, share=0.6)
        yield from _mask_failures(given)
        yield from _sampling_failures(given)


def _mask_failures(given: Inputs) -> Iterator[str]:
    ids, facts = masked_argmax(given.logits, given.words, given.row_of)
    best = [reference.masked_argmax(row, words) for row, words in zip(given.logits, given.words, strict=True)]
    if ids.tolist() != best:
        yield f"masked_argmax {given.shape} {given.logits.dtype}"
    expected, known = reference.apply_mask(given.logits, given.words, given.row_of)
    masked = given.logits.clone()
    found = apply_mask(masked, given.words, given.row_of).tolist()
    if not torch.equal(masked, expected) or found != known or facts.tolist() != known:
        yield f"apply_mask {given.shape} {given.logits.dtype}"


def _sampling_failures(given: Inputs) -> Iterator[str]:
    settings = [SETTINGS[row % len(SETTINGS)] for row in range(given.shape.rows)]
    device = given.logits.device

    def column(name: str) -> torch.Tensor:
        wanted = torch.int32 if name == "top_k" else torch.float32
        return torch.tensor([row[name] for row in settings], dtype=wanted, device=device)

    columns = [column(name) for name in ("temperature", "top_k", "min_p", "top_p")]
    found = select_candidates(given.logits, given.words, given.row_of, *columns)
    targets: list[Any] = [
        reference.target(row, words, **one) for row, words, one in zip(given.logits, given.words, settings, strict=True)
    ]
    for index, expected in enumerate(targets):
        if not _agrees(_spelled_out(found, given, index), expected):
            yield f"select_candidates {given.shape} {given.logits.dtype} row {index}"
    for proposal, offered in _proposals(given):
        verified = verify_drafts(
            given.logits, given.words, given.row_of, found, given.first_rows, given.num_drafts, given.drafts,
            offered, given.seeds, given.positions,
        )  # fmt: skip
        for request in range(given.shape.batch):
            first = request * (given.shape.drafts + 1)
            tokens, _ = reference.verify(
                targets[first : first + given.shape.drafts + 1], given.drafts[request].tolist(),
                None if proposal is None else proposal[request], int(given.seeds[request]),
                int(given.positions[request]),
            )  # fmt: skip
            if verified.tokens[request, : len(tokens)].tolist() != tokens:
                yield f"verify_drafts {given.shape} {given.logits.dtype} request {request}"


def _proposals(given: Inputs) -> Iterator[tuple[torch.Tensor | None, Proposal | None]]:
    """q of every draft, and what the kernel is told: nothing, probabilities, and logits at a temperature."""
    yield None, None
    yield given.proposal, Proposal.of_probabilities(given.proposal)
    logits = given.proposal.clamp(min=1e-30).log() * HEAT
    slab_of = torch.arange(given.shape.batch, dtype=torch.int32, device=logits.device)
    heat = torch.full((given.shape.batch,), HEAT, device=logits.device)
    yield (logits.double() / HEAT).softmax(-1), proposal_of_logits(logits, slab_of, heat, given.num_drafts)


def _spelled_out(found: Candidates, given: Inputs, index: int) -> torch.Tensor:
    """p of one row, from the formula of `Candidates`."""
    row = given.logits[index].float().cpu()
    bits = (row + 0.0).view(torch.int32).long() & 0xFFFFFFFF
    keys = torch.where(bits >= 1 << 31, 0xFFFFFFFF - bits, bits + (1 << 31))
    last_key, last_id = int(found.last_key[index]), int(found.last_id[index])
    ids = torch.arange(len(row))
    members = reference.legal_set(given.words[index], len(row))
    members &= (keys > last_key) | ((keys == last_key) & (ids <= last_id))
    weights = ((row.double() - float(found.top[index])) * float(found.scale[index])).exp()
    return torch.where(members, weights, 0.0) / float(found.total[index])


def _agrees(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal up to rounding."""
    return bool(torch.allclose(found, expected, rtol=TOLERANCE, atol=1e-9))
