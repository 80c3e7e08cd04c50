"""`ninfer bench` measures every engine on the same work in one run and prints its ratios."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ninfer_vllm.cli import bench
from ninfer_vllm.cli.main import main

pytestmark = pytest.mark.contract("API-6", "PRF-1")


def test_masks_of_all_engines_are_measured_and_plotted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "masks", "embedded", "--format", "json"]) == 0
    captured = capsys.readouterr()
    figures: dict[str, Any] = json.loads(captured.out)["figures"]
    assert list(figures) == ["ninfer", "xgrammar", "llguidance"]
    ours = figures["ninfer"]
    assert (ours["refused"], ours["cut_short"]) == ([], 0)
    for part in ("first_mask", "mask", "accept"):
        assert ours[part]["count"] > 0
        assert 0 < ours[part]["p50_us"] <= ours[part]["p99_us"]
    assert "xgrammar" in captured.err
    bench._print_masks(figures)
    plot = capsys.readouterr().out
    assert "× ninfer" in plot
    assert "█" in plot


@pytest.mark.parametrize(
    "words", [["masks", "--peers", "nobody"], ["engine", "--batches", "0"], ["engine", "--tokens", "0"]]
)
def test_unusable_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert "ninfer bench" in capsys.readouterr().err


def test_engine_plot_shows_ratios_and_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"1": {"tokens": 10, "tokens_per_s": 50.0, "token_ms": 20.0}}
    bench._print_engines({"unconstrained": rates, "stock": {"failed": "no such model"}, "ninfer": rates})
    plot = capsys.readouterr().out
    assert "1.00 × unconstrained" in plot
    assert "stock: no such model" in plot
