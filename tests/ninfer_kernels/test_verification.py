"""Draft verification against the reference: accepted, rejected anywhere, illegal, padding, faults."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from ninfer_kernels import reference

from tests.support.logits import batch_of

NUM_DRAFTS = [3, 0, 1, 3, 2, 3]
MOST = 3
SIZES = ((1, 2), (31, 12), (33, 3), (151_936, 1), (248_320, 1))
CASES = [(size, repeats, kind) for size, repeats in SIZES for kind in ("one-hot", "probabilities")]
CASES += [(33, 4, "logits"), (248_320, 1, "logits")]


def first_rows() -> list[int]:
    starts = [0]
    for count in NUM_DRAFTS[:-1]:
        starts.append(starts[-1] + count + 1)
    return starts


def proposal_of(size: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Sparse rows inside a wider tensor; what belongs to no draft is NaN."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.full((len(NUM_DRAFTS), MOST, size + 3), torch.nan, dtype=dtype)
    for request, count in enumerate(NUM_DRAFTS):
        weights = torch.rand(count, size, generator=generator)
        weights *= torch.rand(count, size, generator=generator) < 8 / size
        weights[:, 0] += 0.01
        wide[request, :count, :size] = (weights / weights.sum(-1, keepdim=True)).to(dtype)
    return wide[:, :, :size]


@pytest.mark.contract("SPC-1", "SPC-2", "SPC-3", "SPC-4", "SPC-6", "SPC-9", "SMP-4", "ERR-4")
@pytest.mark.parametrize(("size", "repeats", "kind"), CASES, ids=str)
def test_every_step_is_that_of_the_reference(
    kernels: dict[str, ModuleType], size: int, repeats: int, kind: str
) -> None:
    num_rows = sum(NUM_DRAFTS) + len(NUM_DRAFTS)
    block = 32 if size < 1000 else 131_072
    batch = batch_of(size, num_rows=num_rows, masked=list(range(num_rows)), share=0.6, dtype=torch.float32, seed=7)
    # The rows of the last request: a fault behind its first draft.
    batch.logits[num_rows - 3] = torch.nan
    # A whole vocabulary is searched for its last candidate elsewhere: here it would only take long.
    top_p = 0.95 if size < 1000 else 1.0
    settings = [
        {"temperature": 0.0 if row % 5 == 0 else 0.8, "top_k": 0, "min_p": 0.0, "top_p": top_p}
        for row in range(num_rows)
    ]
    columns = [torch.tensor([row[name] for row in settings]) for name in ("temperature", "min_p", "top_p")]
    no_limit = torch.zeros(num_rows, dtype=torch.int32)
    candidates = kernels["candidates"].select_candidates(
        batch.logits, batch.words, batch.row_of, columns[0], no_limit, columns[1], columns[2], block=block
    )
    targets: list[Any] = [
        reference.target(batch.logits[row], batch.words[row], **settings[row]) if row != num_rows - 3 else 2
        for row in range(num_rows)
    ]
    proposal = None if kind == "one-hot" else proposal_of(size, torch.float32, seed=3)
    given = proposals_given(kernels, kind, proposal, block)
    met = set()
    for repeat in range(repeats):
        drafts = drafts_of(targets, proposal, size, seed=repeat)
        seeds = torch.arange(len(NUM_DRAFTS)) + 100 * repeat - 3
        positions = torch.arange(len(NUM_DRAFTS)) * 7
        found = kernels["verification"].verify_drafts(
            batch.logits, batch.words, batch.row_of, candidates, torch.tensor(first_rows(), dtype=torch.int32),
            torch.tensor(NUM_DRAFTS, dtype=torch.int32), drafts, given, seeds, positions, block=block,
        )  # fmt: skip
        for request, (first, count) in enumerate(zip(first_rows(), NUM_DRAFTS, strict=True)):
            own = None if proposal is None else proposal[request]
            tokens, fault = reference.verify(
                targets[first : first + count + 1], drafts[request, :count].tolist(), own, int(seeds[request]),
                int(positions[request]),
            )  # fmt: skip
            row = found.tokens[request].tolist()
            assert row == tokens + [-1] * (MOST + 1 - len(tokens))
            assert (int(found.num_tokens[request]), int(found.faults[request])) == (len(tokens), fault)
            met.add((count, len(tokens), fault))
    if repeats > 10:
        assert {(3, 1, 0), (3, 2, 0), (3, 3, 0), (3, 4, 0), (3, 1, 2), (0, 1, 0)} <= met, "a case was never met"


def proposals_given(kernels: dict[str, ModuleType], kind: str, proposal: torch.Tensor | None, block: int) -> Any:
    """The proposal as the kernel takes it; as logits in other slabs than the requests', at two temperatures."""
    if proposal is None:
        return None
    if kind == "probabilities":
        return kernels["proposals"].Proposal.of_probabilities(proposal)
    temperature = torch.tensor([0.5, 2.0] * len(NUM_DRAFTS))[: len(NUM_DRAFTS)]
    slab_of = torch.arange(len(NUM_DRAFTS), dtype=torch.int32).flip(0) + 1
    slabs = torch.full((len(NUM_DRAFTS) + 2, *proposal.shape[1:]), torch.nan)
    # Any constant may be added to a row of logits.
    slabs[slab_of.long()] = proposal.log() * temperature[:, None, None] + 3.0
    num_drafts = torch.tensor(NUM_DRAFTS, dtype=torch.int32)
    return kernels["proposals"].proposal_of_logits(slabs, slab_of, temperature, num_drafts, block=block)


def drafts_of(targets: list[Any], proposal: torch.Tensor | None, size: int, seed: int) -> torch.Tensor:
    """Likely tokens, any tokens and padding in turn; NaN's integer cousin where no draft is."""
    generator = torch.Generator().manual_seed(seed)
    drafts = torch.full((len(NUM_DRAFTS), MOST), 1 << 30, dtype=torch.int32)
    for request, (first, count) in enumerate(zip(first_rows(), NUM_DRAFTS, strict=True)):
        for at in range(count):
            kind = int(torch.randint(8, (), generator=generator))
            if kind == 0:
                drafts[request, at] = -1
            elif kind == 1 or isinstance(targets[first + at], int):
                drafts[request, at] = int(torch.randint(size, (), generator=generator))
            elif kind < 4 and proposal is not None:
                drafts[request, at] = int(torch.multinomial(proposal[request, at], 1, generator=generator))
            else:
                drafts[request, at] = int(targets[first + at].argmax())
    return drafts
