"""The benchmark of speculative decoding reports what it measured; no figure is judged here."""

from __future__ import annotations

import pytest

from tests.benchmarks.bench_speculation import Measurement, as_table, asks_of, speculation_of


@pytest.mark.contract("PRF-2", "SPC-8")
def test_report_tells_accepted_length_validity_and_speed_as_a_ratio(tmp_path) -> None:
    plain = Measurement("ours", "none", 0.8, 100, 2.0, 8, 8, 0, 0)
    drafted = Measurement("ours", "ngram", 0.8, 90, 1.5, 7, 8, 40, 50)
    alone = Measurement("stock", "ngram", 0.0, 90, 1.5, 8, 8, 40, 0)
    head, _, *lines = as_table([plain, drafted, alone]).splitlines()
    assert head == "| mode | proposer | temperature | accepted length | valid | speed |"
    assert lines == [
        "| ours | none | 0.8 | 1.00 | 8/8 | 1.00 |",
        "| ours | ngram | 0.8 | 2.25 | 7/8 | 1.20 |",
        "| stock | ngram | 0.0 | 1.00 | 8/8 | - |",
    ]
    modes = {mode: asks_of(mode, 0.8, 9, 40) for mode in ("free", "stock", "ours")}
    assert len({tuple(ask.prompt for ask in asks) for asks in modes.values()}) == 1
    assert [asks[0].constraint is None for asks in modes.values()] == [True, False, False]
    assert speculation_of("none", tmp_path) is None
    assert speculation_of("noisy", tmp_path)["draft_sample_method"] == "probabilistic"
