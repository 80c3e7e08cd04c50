"""Candidate selection against the reference that sorts, and against the oracle."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from ninfer_kernels import reference

from tests.support.logits import Batch, batch_of
from tests.support.oracles import sampler

SETTINGS: list[dict[str, Any]] = [
    {"temperature": 1.0, "top_k": 0, "min_p": 0.0, "top_p": 1.0},
    {"temperature": 0.0, "top_k": 3, "min_p": 0.5, "top_p": 0.5},
    {"temperature": 0.7, "top_k": 7, "min_p": 0.0, "top_p": 1.0},
    {"temperature": 1.5, "top_k": 0, "min_p": 0.15, "top_p": 1.0},
    {"temperature": 1.0, "top_k": 0, "min_p": 0.0, "top_p": 0.62},
    {"temperature": 0.9, "top_k": 9, "min_p": 0.03, "top_p": 0.81},
    {"temperature": 1.0, "top_k": 1000, "min_p": 1.0, "top_p": 1.0},
    {"temperature": 2.0, "top_k": 5, "min_p": 0.0, "top_p": 0.01},
]


def selected(kernels: dict[str, ModuleType], batch: Batch, settings: list[dict[str, Any]], block: int) -> Any:
    def column(name: str) -> torch.Tensor:
        return torch.tensor([row[name] for row in settings], dtype=torch.int32 if name == "top_k" else torch.float32)

    parameters = [column(name) for name in ("temperature", "top_k", "min_p", "top_p")]
    select = kernels["candidates"].select_candidates
    return select(batch.logits, batch.words, batch.row_of, *parameters, block=block)


def spelled_out(found: Any, batch: Batch, index: int) -> torch.Tensor:
    """p of one row, from the formula of `Candidates`."""
    row = batch.logits[int(batch.row_of[index])].float()
    legal = reference.legal_set(batch.words[index], len(row))
    bits = (row + 0.0).view(torch.int32).long() & 0xFFFFFFFF
    keys = torch.where(bits >= 1 << 31, 0xFFFFFFFF - bits, bits + (1 << 31))
    last_key, last_id = int(found.last_key[index]), int(found.last_id[index])
    members = legal & ((keys > last_key) | ((keys == last_key) & (torch.arange(len(row)) <= last_id)))
    weights = ((row.double() - float(found.top[index])) * float(found.scale[index])).exp()
    return torch.where(members, weights, 0.0) / float(found.total[index])


@pytest.mark.contract("SMP-1", "SMP-2", "SMP-3")
@pytest.mark.parametrize("levels", [0, 4], ids=["distinct", "tied"])
@pytest.mark.parametrize("size", [1, 31, 33, 200])
def test_candidates_are_those_of_the_reference_and_of_the_oracle(
    kernels: dict[str, ModuleType], size: int, levels: int
) -> None:
    rows = list(range(len(SETTINGS)))
    batch = batch_of(
        size, num_rows=len(rows), masked=rows[::-1], share=0.6, dtype=torch.float32, seed=size, levels=levels
    )
    found = selected(kernels, batch, SETTINGS, 32)
    assert found.facts.tolist() == [1] * len(SETTINGS)
    for index, settings in enumerate(SETTINGS):
        row = batch.logits[int(batch.row_of[index])]
        p = spelled_out(found, batch, index)
        expected = reference.target(row, batch.words[index], **settings)
        torch.testing.assert_close(p, expected, rtol=1e-5, atol=0)
        legal = reference.legal_set(batch.words[index], size).nonzero().flatten().tolist()
        judged = sampler.target(row.double().tolist(), legal, **settings)
        assert p.nonzero().flatten().tolist() == sorted(judged)


@pytest.mark.contract("SMP-2")
@pytest.mark.parametrize("size", [151_936, 248_320])
def test_candidates_of_a_whole_vocabulary(kernels: dict[str, ModuleType], size: int) -> None:
    # Values of bfloat16 are tied many times over.
    chosen = [SETTINGS[5], {"temperature": 0.6, "top_k": 0, "min_p": 0.0, "top_p": 0.9}]
    batch = batch_of(size, num_rows=2, masked=[1, 0], share=0.5, dtype=torch.bfloat16, seed=size)
    found = selected(kernels, batch, chosen, 131_072)
    for index, settings in enumerate(chosen):
        expected = reference.target(batch.logits[int(batch.row_of[index])], batch.words[index], **settings)
        torch.testing.assert_close(spelled_out(found, batch, index), expected, rtol=1e-4, atol=0)


@pytest.mark.contract("SMP-3", "SMP-4")
def test_facts_tell_empty_and_unsound_rows(kernels: dict[str, ModuleType]) -> None:
    batch = batch_of(33, num_rows=4, masked=[0, 1, 2, 3], share=0.9, dtype=torch.float32, seed=1)
    batch.words[0] = 0
    batch.logits[1] = torch.nan
    batch.logits[2] = -torch.inf
    found = selected(kernels, batch, [SETTINGS[0]] * 4, 32)
    assert found.facts.tolist() == [0, 2, 0, 1]
