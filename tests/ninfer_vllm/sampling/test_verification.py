"""Drafts of one row verified against the oracle: every rejection position, illegal drafts, faults, padding."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from ninfer_kernels.uniforms import Purpose, uniform

from ninfer_vllm.sampling.faults import RowFault
from ninfer_vllm.sampling.parameters import Parameters
from ninfer_vllm.sampling.targets import Target, target_of
from ninfer_vllm.sampling.verification import Step, residual, verify
from tests.support.oracles import sampler
from tests.support.oracles.chi_square import is_consistent

SIZE = 6
DRAFTS = 3
SEEDS = 4_000
PARAMETERS = Parameters(temperature=0.8, top_k=5, min_p=0.02, top_p=0.95)
LEGAL = ([0, 1, 2, 3, 4], [1, 3, 5], [2, 4], [0, 5])


def target_logits() -> list[np.ndarray]:
    generator = np.random.default_rng(11)
    rows = generator.normal(size=(DRAFTS + 1, SIZE)).astype(np.float32)
    for row, legal in zip(rows, LEGAL, strict=True):
        row[[token for token in range(SIZE) if token not in legal]] = -np.inf
    return list(rows)


LOGITS = target_logits()
P = [
    sampler.target(row.tolist(), legal, temperature=0.8, top_k=5, min_p=0.02, top_p=0.95)
    for row, legal in zip(LOGITS, LEGAL, strict=True)
]
# Proposals over two or three tokens, illegal ones among them.
SPARSE = [{0: 0.5, 5: 0.5}, {1: 0.2, 2: 0.7, 3: 0.1}, {2: 0.9, 0: 0.1}]


def target_at(index: int) -> Target | RowFault:
    return target_of(LOGITS[index], PARAMETERS)


def dense(proposals: list[dict[int, float]]) -> np.ndarray:
    rows = np.zeros((len(proposals), SIZE), dtype=np.float32)
    for row, proposal in zip(rows, proposals, strict=True):
        row[list(proposal)] = list(proposal.values())
    return rows


def expected(drafts: list[int], proposals: list[dict[int, float]], seed: int, position: int) -> tuple[int, ...]:
    """The step of the oracle with the same numbers."""
    for index, draft in enumerate(drafts):
        p, q = P[index], proposals[index]
        ratio = p.get(draft, 0.0) / q[draft]
        if uniform(seed, position + index, Purpose.ACCEPT) >= ratio:
            number = uniform(seed, position + index, Purpose.CORRECT)
            return (*drafts[:index], sampler.at(sampler.corrected(p, q), number))
    return (*drafts, sampler.at(P[len(drafts)], uniform(seed, position + len(drafts), Purpose.DRAW)))


@pytest.mark.contract("SPC-1", "SPC-2", "SPC-4", "SPC-9")
@pytest.mark.parametrize("kind", ["one-hot", "sparse"])
def test_every_step_is_that_of_the_oracle(kind: str) -> None:
    generator = np.random.default_rng(5)
    lengths: Counter[int] = Counter()
    for seed in range(SEEDS):
        drafts = [int(generator.choice(list(q), p=list(q.values()))) for q in SPARSE]
        proposals = SPARSE if kind == "sparse" else [{draft: 1.0} for draft in drafts]
        given = dense(SPARSE) if kind == "sparse" else None
        step = verify(target_at, drafts, given, seed, 17)
        assert step == Step(expected(drafts, proposals, seed, 17))
        lengths[len(step.tokens)] += 1
    assert set(lengths) == {1, 2, 3, 4}, "some rejection position was never met"


@pytest.mark.contract("SPC-2", "SPC-3", "SPC-4", "SPC-9")
def test_whole_steps_follow_the_distribution_of_the_oracle() -> None:
    generator = np.random.default_rng(6)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(5 * SEEDS):
        drafts = [int(generator.choice(list(q), p=list(q.values()))) for q in SPARSE]
        counts[verify(target_at, drafts, dense(SPARSE), seed, 0).tokens] += 1
    assert is_consistent(counts, sampler.step_distribution(P, SPARSE))


@pytest.mark.contract("SPC-3", "MSK-4")
@pytest.mark.parametrize("place", range(DRAFTS))
@pytest.mark.parametrize("kind", ["one-hot", "sparse"])
def test_illegal_draft_ends_the_step_with_a_legal_token(place: int, kind: str) -> None:
    best = [max(p, key=lambda token, p=p: p[token]) for p in P]
    drafts = best[:DRAFTS]
    drafts[place] = next(token for token in range(SIZE) if token not in LEGAL[place])
    proposals = [{draft: 1.0} for draft in drafts]
    proposals[place] = {drafts[place]: 0.5, best[place]: 0.5}
    reached = 0
    for seed in range(SEEDS // 10):
        tokens = verify(target_at, drafts, dense(proposals) if kind == "sparse" else None, seed, 3).tokens
        assert len(tokens) <= place + 1
        if len(tokens) == place + 1:
            reached += 1
            assert tokens[-1] in LEGAL[place]
    assert reached


@pytest.mark.contract("SPC-3", "WEX-4")
@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy"])
def test_padding_proposes_nothing(greedy: bool) -> None:
    parameters = Parameters(temperature=0.0) if greedy else PARAMETERS
    target = target_of(LOGITS[0], parameters)
    assert isinstance(target, Target)
    counts: Counter[int] = Counter()
    for seed in range(SEEDS):
        for proposal in (None, dense(SPARSE)[:1]):
            (token,) = verify(lambda _: target, [-1], proposal, seed, 0).tokens
            counts[token] += 1
    shares = {
        int(token): float(weight) / target.total for token, weight in zip(target.ids, target.weights, strict=True)
    }
    assert is_consistent(counts, shares)


@pytest.mark.contract("SPC-6")
def test_greedy_row_accepts_its_argmax_alone_whatever_the_proposal() -> None:
    greedy = [target_of(row, Parameters(temperature=0)) for row in LOGITS]
    best = [int(target.ids[0]) for target in greedy if isinstance(target, Target)]
    proposals = dense([{best[0]: 0.3, 0: 0.7}, {best[1]: 1.0}, {2: 0.5, 4: 0.5}])
    wrong = 2 if best[2] == 4 else 4
    for proposal in (None, proposals):
        for seed in range(50):
            assert verify(greedy.__getitem__, best[:3], proposal, seed, 0).tokens == tuple(best)
            assert verify(greedy.__getitem__, [*best[:2], wrong], proposal, seed, 0).tokens == tuple(best[:3])


@pytest.mark.contract("ERR-4", "MSK-6", "SMP-4")
@pytest.mark.parametrize("fault", RowFault)
@pytest.mark.parametrize("place", range(DRAFTS + 1))
def test_fault_counts_only_where_it_is_reached(fault: RowFault, place: int) -> None:
    def broken(index: int) -> Target | RowFault:
        return fault if index == place else target_of(LOGITS[index], PARAMETERS)

    drafts = [max(p, key=lambda token, p=p: p[token]) for p in P[:DRAFTS]]
    for seed in range(SEEDS // 20):
        sound, found = verify(target_at, drafts, None, seed, 0), verify(broken, drafts, None, seed, 0)
        if len(sound.tokens) > place:
            assert found == Step(sound.tokens[:place], fault)
        else:
            assert found == sound


@pytest.mark.contract("SPC-5")
def test_positions_behind_the_first_rejection_are_never_asked_for() -> None:
    asked: list[int] = []

    def noting(index: int) -> Target | RowFault:
        asked.append(index)
        return target_of(LOGITS[index], PARAMETERS)

    verify(noting, [5, 1, 2], None, 0, 0)
    assert asked == [0]


@pytest.mark.contract("SPC-1")
def test_proposal_is_left_as_it_was() -> None:
    proposal = dense(SPARSE)
    before = proposal.copy()
    verify(target_at, [0, 2, 2], proposal, 1, 0)
    assert (proposal == before).all()


def test_residual_without_rest_is_the_target() -> None:
    target = Target.of(np.array([1, 4]), np.array([0.5, 0.5]))
    equal = np.array([0, 0.5, 0, 0, 0.5, 0])
    assert residual(target, 1, equal) is target
    alone = Target.of(np.array([4]), np.ones(1))
    assert residual(alone, 4, None) is alone
