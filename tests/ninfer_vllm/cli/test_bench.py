"""`ninfer bench` measures every engine on the same work in one run and prints its ratios."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ninfer_vllm.cli import bench
from ninfer_vllm.cli.bench_engines import BACKENDS, DRAFTS, Plan, add_ratios, is_complete, plot
from ninfer_vllm.cli.main import main

pytestmark = pytest.mark.contract("API-6", "PRF-1")


def test_masks_of_all_engines_are_measured_and_plotted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "masks", "embedded", "--format", "json"]) == 0
    captured = capsys.readouterr()
    figures: dict[str, Any] = json.loads(captured.out)["figures"]
    assert list(figures) == ["ninfer", "xgrammar", "llguidance"]
    ours = figures["ninfer"]
    assert (ours["refused"], ours["cut_short"]) == ([], 0)
    assert all(of["memory_mib"] >= 0 for of in figures.values())
    for part in ("first_mask", "warm_first_mask", "cold_mask", "cold_accept", "mask", "accept"):
        assert ours[part]["count"] > 0
        assert 0 < ours[part]["p50_us"] <= ours[part]["p99_us"]
    assert "xgrammar" in captured.err
    bench._print_masks(figures)
    plot = capsys.readouterr().out
    assert "× ninfer" in plot
    assert "█" in plot


@pytest.mark.parametrize(
    "words",
    [
        ["masks", "--peers", "nobody"], ["engine", "--batches", "0"], ["engine", "--tokens", "0"],
        ["engine", "--drafts", "psychic"], ["engine", "--drafts", ","], ["engine", "--backends", "nobody"],
        ["engine", "--temperature", "-1"], ["engine", "--temperature", "nan"],
    ],
)  # fmt: skip
def test_unusable_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert "ninfer bench" in capsys.readouterr().err


def row(tokens_per_s: float, *, cut_short: int = 0) -> dict[str, Any]:
    times = {"p50": 20.0, "p99": 31.5}
    return {
        "tokens": 10, "tokens_per_s": tokens_per_s, "first_token_ms": times, "inter_token_ms": times,
        "cut_short": cut_short,
    }  # fmt: skip


def figures_of_a_run() -> dict[str, dict[str, Any]]:
    figures: dict[str, dict[str, Any]] = {
        "none": {
            "unconstrained": {"1": row(100.0)}, "xgrammar": {"1": row(80.0)}, "guidance": {"failed": "no such engine"},
            "ninfer": {"1": row(90.0)},
        },
        "ngram": {"ninfer": {"1": row(135.0, cut_short=1)}},
    }  # fmt: skip
    add_ratios(figures)
    return figures


@pytest.mark.contract("PRF-2")
def test_every_measurement_has_its_ratios_to_the_other_modes_and_to_no_drafts() -> None:
    figures = figures_of_a_run()
    ours = figures["none"]["ninfer"]["1"]
    assert ours["ratios"] == {"unconstrained": 0.9, "xgrammar": 1.125}
    assert ours["of_plain"] == 1.0
    assert (figures["ngram"]["ninfer"]["1"]["ratios"], figures["ngram"]["ninfer"]["1"]["of_plain"]) == ({}, 1.5)
    assert not is_complete(figures)
    del figures["none"]["guidance"]
    assert is_complete(figures)


@pytest.mark.contract("PRF-2")
def test_engine_plot_shows_times_ratios_and_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    plot(figures_of_a_run(), bench._heading, bench._bar)
    shown = capsys.readouterr().out
    assert "90.0, 20.0 ms between tokens (p99 31.5), 0.90 × unconstrained, 1.12 × xgrammar" in shown
    assert "1.50 × without drafts, 1 ended early" in shown
    assert "guidance, drafts: none: no such engine" in shown


@pytest.mark.contract("PRF-2")
def test_plan_has_an_engine_for_every_back_end_and_proposer() -> None:
    plan = Plan("m", "d", DRAFTS, BACKENDS, [1, 8], 64, 1.0)
    runs = list(plan.runs())
    assert [(drafts, backend) for drafts, backend, _ in runs] == [
        *((one, other) for one in DRAFTS[:-1] for other in BACKENDS),
        ("grammar", "ninfer"),
    ]
    assert runs[0][2] == {
        "backend": "xgrammar", "drafts": "none", "model": "m", "draft_model": "d", "tokens": 64, "batches": [1, 8],
        "temperature": 1.0,
    }  # fmt: skip
