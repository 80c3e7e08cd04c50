"""The target distribution of one position, against the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.sampling.faults import RowFault
from ninfer_vllm.sampling.parameters import Parameters
from ninfer_vllm.sampling.targets import SORTED_FIRST, Target, target_of
from tests.support.oracles import sampler

SIZE = 40
# Few distinct values, so that ties are the rule.
VALUES = st.sampled_from([-4.0, -1.5, 0.0, 0.25, 1.0, 3.0])


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[float], list[int]]:
    logits = draw(st.lists(VALUES, min_size=1, max_size=SIZE))
    legal = draw(st.sets(st.integers(0, len(logits) - 1), min_size=1))
    return logits, sorted(legal)


def masked(logits: list[float], legal: list[int]) -> np.ndarray:
    row = np.full(len(logits), -np.inf, dtype=np.float32)
    row[legal] = np.asarray(logits, dtype=np.float32)[legal]
    return row


def probabilities(found: Target | RowFault) -> dict[int, float]:
    assert isinstance(found, Target)
    return {int(token): float(weight) / found.total for token, weight in zip(found.ids, found.weights, strict=True)}


@pytest.mark.contract("SMP-1", "SMP-2", "SMP-3", "SPC-9")
@given(
    rows(),
    st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    st.integers(0, SIZE + 2),
    st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    st.sampled_from([0.01, 0.31, 0.73, 0.97, 1.0]),
)
def test_target_is_that_of_the_oracle(
    row: tuple[list[float], list[int]], temperature: float, top_k: int, min_p: float, top_p: float
) -> None:
    logits, legal = row
    found = probabilities(target_of(masked(logits, legal), Parameters(temperature, top_k, min_p, top_p)))
    expected = sampler.target(logits, legal, temperature=temperature, top_k=top_k, min_p=min_p, top_p=top_p)
    assert found.keys() == expected.keys()
    for token, share in expected.items():
        assert math.isclose(found[token], share, rel_tol=1e-12)


@pytest.mark.contract("SMP-1")
def test_best_legal_token_is_found_behind_many_better_illegal_ones() -> None:
    logits = np.arange(1000, dtype=np.float32)
    logits[7:] = -np.inf
    assert probabilities(target_of(logits, Parameters(top_k=20))).keys() == set(range(7))
    assert probabilities(target_of(logits, Parameters(temperature=0))) == {6: 1.0}


@pytest.mark.contract("SMP-2", "SPC-6")
def test_smallest_id_wins_a_tie() -> None:
    tied = masked([1.0, 3.0, 3.0, 3.0], [0, 2, 3])
    assert probabilities(target_of(tied, Parameters(temperature=0))) == {2: 1.0}
    assert probabilities(target_of(tied, Parameters(top_k=1))) == {2: 1.0}
    assert probabilities(target_of(tied, Parameters(top_p=0.1))) == {2: 1.0}


@pytest.mark.contract("SMP-2")
def test_top_p_of_a_wide_row_is_the_same_with_and_without_sorting_everything() -> None:
    generator = np.random.default_rng(3)
    # Flat, so that the share is reached late; sharp, so that it is reached early.
    for scale in (0.01, 4.0):
        row = (generator.normal(size=4 * SORTED_FIRST) * scale).astype(np.float32)
        found = probabilities(target_of(row, Parameters(top_p=0.6)))
        assert (len(found) > SORTED_FIRST) == (scale < 1)
        assert found.keys() == sampler.target(row.tolist(), range(len(row)), top_p=0.6).keys()


@pytest.mark.contract("SMP-4", "ERR-4")
def test_empty_and_unsound_rows_are_told_apart() -> None:
    nothing = np.full(9, -np.inf, dtype=np.float32)
    for temperature in (0.0, 1.0):
        assert target_of(nothing, Parameters(temperature)) is RowFault.EMPTY
        for value in (np.nan, np.inf):
            row = nothing.copy()
            row[[2, 4]] = 0.5, value
            assert target_of(row, Parameters(temperature)) is RowFault.NON_FINITE


def test_draw_never_leaves_the_support() -> None:
    target = Target.of(np.array([3, 5, 8, 9]), np.array([0.0, 0.25, 0.75, 0.0]))
    below_one = 1 - 2**-53
    assert [target.draw(number) for number in (2**-60, 0.2499, 0.2501, below_one)] == [5, 5, 8, 8]
