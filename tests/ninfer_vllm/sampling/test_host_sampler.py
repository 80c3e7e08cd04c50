"""The host's real V1 sampler with our rows in it: exact distributions, faults, log probabilities, neighbours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from ninfer_kernels.uniforms import Purpose, uniform

from ninfer_vllm.errors import InvalidOption
from ninfer_vllm.host.acceptance import refuse_lossy_acceptance, refuse_lost_drafts
from ninfer_vllm.sampling.parameters import Parameters
from tests.support.equal_rows import sharing_equal_rows
from tests.support.host_sampler import Settings, run_step, sampling_patches
from tests.support.oracles import sampler
from tests.support.oracles.chi_square import LEVEL, is_consistent

pytestmark = pytest.mark.slow

ROWS = 200_000
A, B, X = 0, 1, 5
TEXTBOOK_P = {A: 0.5, B: 0.5}
TEXTBOOK_Q = {A: 0.5, X: 0.5}
SIZE = 8


@pytest.fixture(scope="module")
def _patched() -> Iterator[None]:
    with sampling_patches():
        yield


patched = pytest.mark.usefixtures("_patched")


def log_row(p: dict[int, float]) -> torch.Tensor:
    row = torch.full((SIZE,), -math.inf)
    row[list(p)] = torch.tensor(list(p.values())).log()
    return row


def drawn(q: dict[int, float], count: int, seed: int) -> list[int]:
    generator = np.random.default_rng(seed)
    return [int(token) for token in generator.choice(list(q), size=count, p=list(q.values()))]


def dense(q: dict[int, float], count: int) -> torch.Tensor:
    row = torch.zeros(SIZE)
    row[list(q)] = torch.tensor(list(q.values()))
    return row.repeat(count, 1)


def counts_of(output: torch.Tensor) -> Counter[tuple[int, ...]]:
    steps, counts = output.unique(dim=0, return_counts=True)
    found = zip(steps.tolist(), counts.tolist(), strict=True)
    return Counter({tuple(token for token in step if token >= 0): count for step, count in found})


def firsts_of(counts: Counter[tuple[int, ...]]) -> Counter[int]:
    firsts: Counter[int] = Counter()
    for step, count in counts.items():
        firsts[step[0]] += count
    return firsts


@pytest.mark.contract("SPC-1", "SPC-2", "SPC-3", "SPC-9", "WEX-4")
@pytest.mark.parametrize("is_sparse", [True, False], ids=["sparse", "one-hot"])
@patched
def test_textbook_example_gives_one_half_each(is_sparse: bool) -> None:
    drafts = [[token] for token in drawn(TEXTBOOK_Q, ROWS, seed=1)]
    logits = log_row(TEXTBOOK_P).repeat(2 * ROWS, 1)
    proposal = dense(TEXTBOOK_Q, ROWS) if is_sparse else None
    with sharing_equal_rows(ROWS):
        output, step = run_step(logits, drafts, proposal, Settings(), constrained=True)
    counts = counts_of(output.sampled_token_ids)
    assert step.faults == {}
    assert is_consistent(firsts_of(counts), TEXTBOOK_P)
    if is_sparse:
        assert is_consistent(counts, sampler.step_distribution([TEXTBOOK_P] * 2, [TEXTBOOK_Q]))


@pytest.mark.contract("SPC-3", "SPC-9")
def test_the_same_test_fails_on_the_host_as_it_is() -> None:
    """Its scheduler takes illegal drafts out, and its CPU kernels sample with temperatures that nobody wrote."""
    rows = ROWS // 10
    drafts = [[token] for token in drawn(TEXTBOOK_Q, rows, seed=1)]
    with sampling_patches(only_repairs=True):
        cut = [row if row != [X] else [] for row in drafts]
        left = sum(map(len, cut))
        logits = log_row(TEXTBOOK_P).repeat(rows + left, 1)
        output, _ = run_step(logits, cut, dense(TEXTBOOK_Q, left), Settings(), constrained=False)
        counts = firsts_of(counts_of(output.sampled_token_ids))
    assert not is_consistent(counts, TEXTBOOK_P)
    assert is_consistent(counts, {A: 0.75, B: 0.25})


@pytest.mark.contract("SPC-2", "SPC-4", "SPC-9", "SMP-2")
@pytest.mark.parametrize("case", range(10))
@patched
def test_random_cases_follow_the_oracle(case: int) -> None:
    generator = np.random.default_rng(100 + case)
    num_drafts = 1 + case % 3
    parameters = Parameters(
        temperature=float(generator.choice([0.6, 1.0, 1.7])),
        top_k=int(generator.choice([0, 3, 5])),
        min_p=float(generator.choice([0.0, 0.1])),
        top_p=float(generator.choice([1.0, 0.9])),
    )
    rows, targets, proposals = [], [], []
    for at in range(num_drafts + 1):
        values = np.float32(generator.normal(size=SIZE))
        legal = sorted(generator.choice(SIZE, size=int(generator.integers(2, SIZE)), replace=False).tolist())
        row = torch.full((SIZE,), -math.inf)
        row[legal] = torch.from_numpy(values)[legal]
        rows.append(row)
        targets.append(
            sampler.target(
                row.tolist(), legal, temperature=parameters.temperature, top_k=parameters.top_k,
                min_p=parameters.min_p, top_p=parameters.top_p,
            )
        )  # fmt: skip
        if at < num_drafts:
            # Three or four tokens, whether legal or not; eighths are exact in float32.
            support = generator.choice(SIZE, size=3, replace=False).tolist()
            proposals.append(dict(zip(support, (0.5, 0.375, 0.125), strict=True)))
    drafts = list(zip(*(drawn(q, ROWS, seed=case * 10 + at) for at, q in enumerate(proposals)), strict=True))
    proposal = torch.stack([dense(q, 1)[0] for q in proposals]).repeat(ROWS, 1)
    logits = torch.stack(rows).repeat(ROWS, 1)
    with sharing_equal_rows(ROWS):
        output, _ = run_step(logits, drafts, proposal, Settings(parameters), constrained=True)
    assert is_consistent(counts_of(output.sampled_token_ids), sampler.step_distribution(targets, proposals), LEVEL)


@pytest.mark.contract("SMP-2", "SMP-5", "SPC-4", "SPC-9")
@pytest.mark.parametrize("drafts", [[], [2, 6, 0]], ids=["plain", "drafted"])
@patched
def test_penalties_come_before_everything_else_at_every_position(drafts: list[int]) -> None:
    """Penalties of the host, with drafts in front of a position counted as output; numbers as they must be."""
    generator = np.random.default_rng(8)
    values = np.float32(generator.normal(size=(len(drafts) + 1, SIZE)) * 2)
    legal = [0, 2, 4, 6, 7]
    parameters = Parameters(temperature=0.9, top_k=4, min_p=0.02, top_p=0.97)
    penalties = {"presence": 0.4, "frequency": 0.3, "repetition": 1.3}
    settings = Settings(parameters, **penalties, prompt=(2, 3), output=(4, 4, 6))
    logits = torch.full(values.shape, -math.inf)
    logits[:, legal] = torch.from_numpy(values)[:, legal]
    rows = 300
    output, _ = run_step(logits.repeat(rows, 1), [drafts] * rows, None, settings, constrained=True)
    targets = [
        sampler.target(
            sampler.penalised(row.tolist(), (2, 3), (4, 4, 6, *drafts[:at]), **penalties), legal,
            temperature=0.9, top_k=4, min_p=0.02, top_p=0.97,
        )
        for at, row in enumerate(values)
    ]  # fmt: skip
    for seed, found in enumerate(output.sampled_token_ids.tolist()):
        assert [token for token in found if token >= 0] == expected_step(targets, drafts, seed, position=3)


def expected_step(targets: list[dict[int, float]], drafts: list[int], seed: int, position: int) -> list[int]:
    """The oracle's step of one-hot drafts."""
    for at, draft in enumerate(drafts):
        p = targets[at]
        if uniform(seed, position + at, Purpose.ACCEPT) >= p.get(draft, 0.0):
            left = sampler.corrected(p, {draft: 1.0})
            return [*drafts[:at], sampler.at(left, uniform(seed, position + at, Purpose.CORRECT))]
    return [*drafts, sampler.at(targets[-1], uniform(seed, position + len(drafts), Purpose.DRAW))]


@pytest.mark.contract("SMP-5")
@patched
def test_row_is_sampled_alike_wherever_it_stands() -> None:
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(6, SIZE, generator=generator)
    drafts, seeds = [[2], [3], [7]], [11, 12, 13]
    settings = Settings(Parameters(temperature=1.3))
    together, _ = run_step(logits.clone(), drafts, None, settings, constrained=True, seeds=seeds)
    for at in range(3):
        alone, _ = run_step(
            logits[2 * at : 2 * at + 2].clone(), [drafts[at]], None, settings, constrained=True, seeds=[seeds[at]]
        )
        assert alone.sampled_token_ids.tolist() == [together.sampled_token_ids[at].tolist()]


@pytest.mark.contract("SMP-4", "ERR-4", "MSK-6")
@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy"])
@pytest.mark.parametrize("value", [-math.inf, math.nan], ids=["empty", "unsound"])
@patched
def test_rows_without_a_candidate_are_faults_where_they_are_reached(value: float, greedy: bool) -> None:
    kind = "empty" if value == -math.inf else "non_finite"
    settings = Settings(Parameters(temperature=0.0 if greedy else 1.0))
    sound, broken = log_row({3: 0.9, 4: 0.1}), torch.full((SIZE,), value)
    # Behind an accepted draft; behind a rejected one; at once; without drafts.
    logits = torch.stack([log_row({3: 1.0}), broken, sound, broken, broken, sound])
    output, step = run_step(logits, [[3], [5], [0]], None, settings, constrained=True)
    assert step.faults == {"0": (kind, 1), "2": (kind, 0)}
    assert output.sampled_token_ids[1].tolist()[0] in (3, 4)
    assert output.sampled_token_ids[1].tolist()[1] == -1
    _, plain = run_step(torch.stack([broken, sound]), [[], []], None, settings, constrained=True)
    assert plain.faults == {"0": (kind, 0)}


@pytest.mark.contract("SMP-2", "SPC-6", "SMP-3")
@patched
def test_ties_go_to_the_smallest_id_and_short_supports_are_taken_as_they_are() -> None:
    tied = log_row({2: 0.25, 4: 0.25, 6: 0.25, 7: 0.25})
    greedy, _ = run_step(tied.repeat(2, 1), [[], []], None, Settings(Parameters(0.0)), constrained=True)
    assert greedy.sampled_token_ids.flatten().tolist() == [2, 2]
    top, _ = run_step(tied.repeat(50, 1), [[]] * 50, None, Settings(Parameters(top_k=1)), constrained=True)
    assert set(top.sampled_token_ids.flatten().tolist()) == {2}
    wide, _ = run_step(tied.repeat(200, 1), [[]] * 200, None, Settings(Parameters(top_k=7)), constrained=True)
    assert set(wide.sampled_token_ids.flatten().tolist()) == {2, 4, 6, 7}


@pytest.mark.contract("SMP-2")
@pytest.mark.parametrize("drafts", [[], [3]], ids=["plain", "drafted"])
@patched
def test_log_probabilities_are_those_of_the_masked_row(drafts: list[int]) -> None:
    p = {3: 0.7, 4: 0.2, 6: 0.1}
    logits = log_row(p).repeat(len(drafts) + 1, 1)
    output, _ = run_step(logits, [drafts], None, Settings(logprobs=2), constrained=True)
    tokens = [token for token in output.sampled_token_ids[0].tolist() if token >= 0]
    found = output.logprobs_tensors
    for at, token in enumerate(tokens):
        ids, values = found.logprob_token_ids[at].tolist(), found.logprobs[at].tolist()
        assert ids[0] == token
        assert [math.exp(value) for value in values] == pytest.approx([p[one] for one in ids], rel=1e-5)
        assert int(found.selected_token_ranks[at]) == sorted(p.values(), reverse=True).index(p[token]) + 1


@pytest.mark.contract("SPC-3", "ERR-6")
def test_padding_is_rejected_for_rows_of_the_host_too() -> None:
    """Its CPU kernel looks the probability of draft -1 up in front of the row."""
    rows = 1000
    first, second, bonus = log_row({SIZE - 1: 1.0}), log_row({2: 0.5, 3: 0.5}), log_row({4: 1.0})
    logits = torch.stack([first, second, bonus]).repeat(rows, 1)
    for proposal in (None, torch.stack([dense({SIZE - 1: 1.0}, 1)[0], dense({2: 0.5, 6: 0.5}, 1)[0]]).repeat(rows, 1)):
        with sampling_patches(only_repairs=True):
            output, _ = run_step(logits.clone(), [[SIZE - 1, -1]] * rows, proposal, Settings(), constrained=False)
        counts = counts_of(output.sampled_token_ids)
        assert set(counts) == {(SIZE - 1, 2), (SIZE - 1, 3)}
        if proposal is None:
            assert is_consistent(counts, {(SIZE - 1, 2): 0.5, (SIZE - 1, 3): 0.5})


@pytest.mark.contract("SPC-3", "MSK-4", "MSK-5")
@patched
def test_drafts_that_no_mask_looked_through_are_taken_for_nothing_proposed() -> None:
    """Behind them stand fillers, which must not be sampled from; what replaces the first is drawn from its target."""
    rows = 400
    logits = torch.stack([log_row({3: 1.0}), log_row({2: 0.5, 4: 0.5}), log_row({7: 1.0})]).repeat(rows, 1)
    output, step = run_step(logits, [[3, 4]] * rows, None, Settings(), constrained=True, num_masked=1)
    assert step.faults == {}
    assert is_consistent(counts_of(output.sampled_token_ids), {(3, 2): 0.5, (3, 4): 0.5})


@pytest.mark.contract("ENG-6", "SPC-7")
@patched
def test_rows_of_the_host_in_a_drafted_step_follow_their_target() -> None:
    """With the CPU's temperatures written where they are read from."""
    rows = ROWS // 10
    drafts = [[token] for token in drawn({A: 0.5, B: 0.5}, rows, seed=2)]
    logits = log_row({A: 0.8, B: 0.2}).repeat(2 * rows, 1)
    parameters = Parameters(temperature=2.0, top_k=3)
    output, _ = run_step(logits, drafts, None, Settings(parameters), constrained=False)
    expected = sampler.target(log_row({A: 0.8, B: 0.2}).tolist(), [A, B], temperature=2.0, top_k=3)
    assert is_consistent(firsts_of(counts_of(output.sampled_token_ids)), expected)


@pytest.mark.contract("ERR-4", "SPC-8")
def test_options_that_hide_what_became_of_a_row_stop_the_start() -> None:
    from vllm.config import VllmConfig, WatermarkConfig

    config = VllmConfig()
    refuse_lossy_acceptance(config)
    config.watermark_config = WatermarkConfig(key=7)
    with pytest.raises(InvalidOption, match="watermark_config"):
        refuse_lossy_acceptance(config)
    config.parallel_config.enable_batch_sharded_sampling = True
    with pytest.raises(InvalidOption, match="enable_batch_sharded_sampling"):
        refuse_lossy_acceptance(config)


@pytest.mark.contract("SPC-10", "API-2")
def test_grammar_drafts_need_drafts_that_pass_through_the_scheduler() -> None:
    from types import SimpleNamespace

    from vllm.config import VllmConfig

    config = VllmConfig()
    with pytest.raises(InvalidOption, match="needed: 'ngram' or 'suffix'"):
        refuse_lost_drafts(config)
    config.speculative_config = SimpleNamespace(method="draft_model")
    with pytest.raises(InvalidOption, match="'draft_model'"):
        refuse_lost_drafts(config)
    config.speculative_config = SimpleNamespace(method="ngram")
    config.scheduler_config.async_scheduling = True
    with pytest.raises(InvalidOption, match="asynchronous"):
        refuse_lost_drafts(config)
    config.scheduler_config.async_scheduling = False
    refuse_lost_drafts(config)
