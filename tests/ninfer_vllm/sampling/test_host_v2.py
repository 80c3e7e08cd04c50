"""The host's V2 sampling, its own classes in Triton's interpreter, with our kernels choosing constrained tokens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from ninfer_kernels.uniforms import Purpose, uniform

from tests.support import v2_sampler
from tests.support.oracles import sampler
from tests.support.oracles.chi_square import is_consistent
from tests.support.v2_sampler import BATCHES, MOST_DRAFTS, OUTPUT, PENALTIES, POSITION, PROMPT, SIZE, A, B, Row

pytestmark = pytest.mark.slow

FILTERS = ("temperature", "top_k", "min_p", "top_p")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Steps of the host's runner, by batch; in a process of its own: Triton chooses its mode when it is imported."""
    run = subprocess.run([sys.executable, "-m", v2_sampler.__name__], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    loaded: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return loaded


def targets_of(row: Row) -> list[dict[int, float]]:
    """p of each position of a request, by the oracle."""
    wanted = {name: row.sampling[name] for name in FILTERS if name in row.sampling}
    penalties = PENALTIES if row.is_penalised else {}
    return [
        sampler.target(
            sampler.penalised(values.tolist(), PROMPT, (*OUTPUT, *row.drafts[:at]), **penalties), legal, **wanted
        )
        for at, (values, legal) in enumerate(zip(row.logits, row.legal, strict=True))
    ]


def proposals_of(row: Row) -> list[dict[int, float]]:
    """q of each draft."""
    if row.proposal is None:
        return [{draft: 1.0} for draft in row.drafts]
    scaled = row.proposal.astype(np.float64) / (row.sampling["temperature"] or 1.0)
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return [dict(enumerate(line / line.sum())) for line in weights]


def expected(row: Row) -> list[int]:
    """The oracle's step with the row's own random numbers."""
    seed, targets = row.sampling["seed"], targets_of(row)
    for at, (draft, q) in enumerate(zip(row.drafts, proposals_of(row), strict=True)):
        p = targets[at]
        if uniform(seed, POSITION + at, Purpose.ACCEPT) * q[draft] >= p.get(draft, 0.0):
            left = sampler.corrected(p, q)
            return [*row.drafts[:at], sampler.at(left, uniform(seed, POSITION + at, Purpose.CORRECT))]
    end = len(row.drafts)
    return [*row.drafts, sampler.at(targets[end], uniform(seed, POSITION + end, Purpose.DRAW))]


@pytest.mark.contract("SPC-1", "SPC-2", "SPC-3", "SPC-4", "SPC-6", "SPC-7", "SPC-9", "SMP-2", "SMP-5", "MSK-1", "MSK-2")
@pytest.mark.parametrize("name", ["plain", "one-hot", "sampled"])
def test_every_constrained_row_is_that_of_the_oracle(found: dict[str, Any], name: str) -> None:
    """Penalties, filters, ties, every rejection place, illegal drafts, in batches with rows of the host."""
    rows = BATCHES[name]()
    assert found[name]["faults"] == {}
    steps = list(zip(rows, found[name]["tokens"], strict=True))
    for row, tokens in steps:
        if row.legal:
            assert tokens == expected(row)
        else:
            assert 1 <= len(tokens) <= len(row.drafts) + 1
            assert tokens[:-1] == row.drafts[: len(tokens) - 1]
    if name != "plain":
        met = {len(tokens) for row, tokens in steps if row.legal and len(row.drafts) == MOST_DRAFTS}
        assert {1, 2, 4} <= met, "some place was never met"


@pytest.mark.contract("SPC-3", "WEX-4", "SPC-9")
def test_textbook_example_gives_one_half_each(found: dict[str, Any]) -> None:
    counts = Counter(tokens[0] for tokens in found["textbook"]["tokens"])
    assert is_consistent(counts, {A: 0.5, B: 0.5})
    # What cutting illegal drafts off gives, as the host does.
    assert not is_consistent(counts, {A: 0.75, B: 0.25})


@pytest.mark.contract("SMP-4", "ERR-4", "MSK-6", "SMP-1")
def test_rows_without_a_candidate_are_faults_where_they_are_reached(found: dict[str, Any]) -> None:
    unsound = {str(at): ["non_finite", count] for first in (0, 3, 6) for at, count in ((first, 0), (first + 1, 1))}
    assert found["faulty"]["faults"] == {**unsound, "9": ["empty", 0]}
    tokens = found["faulty"]["tokens"]
    # Behind a rejected draft the fault is not reached; what a failed row carries is dropped before anyone sees it.
    assert [tokens[at][0] in (3, 4) for at in (2, 5, 8)] == [True] * 3
    assert [len(tokens[at]) for at in (0, 1, 2, 9)] == [1, 2, 1, 1]
    # Rows beside them: the host's own, and one whose only unsound logit is illegal.
    assert [tokens[at] for at in (10, 11)] == [[3], [3]]


@pytest.mark.contract("SMP-2")
def test_log_probabilities_are_those_of_the_chosen_tokens(found: dict[str, Any]) -> None:
    """The host's raw mode: of the masked row, before penalties and temperature."""
    rows, own = BATCHES["plain"](), found["plain"]
    assert own["logprob_ids"] == [tokens[0] for tokens in own["tokens"]]
    for row, tokens, share in zip(rows, own["tokens"], own["logprobs"], strict=True):
        p = sampler.target(row.logits[0].tolist(), row.legal[0] if row.legal else range(SIZE))
        assert share == pytest.approx(p[tokens[0]], rel=1e-4)
