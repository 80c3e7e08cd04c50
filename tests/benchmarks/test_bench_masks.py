"""The benchmark of masks runs and prints every figure it promises; no figure is judged here."""

import re
import subprocess
import sys

import pytest

from tests.architecture.repository import ROOT
from tests.benchmarks.bench_masks import SCHEMAS


@pytest.mark.slow
@pytest.mark.contract("PRF-1")
def test_benchmark_prints_times_and_memory_of_our_engine() -> None:
    if not SCHEMAS.is_file():
        pytest.skip("the real schemas are not there")
    command = [sys.executable, "-m", "tests.benchmarks.bench_masks", "--schemas", "2", "--engines", "native"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"^2 schemas, \d+ tokens; lowering p50 [\d.]+ ms$", done.stdout, re.MULTILINE)
    assert re.search(r"^native: refused 0, texts cut short 0, memory \+\d+ MiB$", done.stdout, re.MULTILINE)
    for label in ("first_mask", "cold_mask", "warm_mask", "cold_accept", "warm_accept"):
        assert re.search(rf"^  {label} +p50 +[\d.]+ p90 .* p99 .* mean .* worst +[\d.]+ us$", done.stdout, re.MULTILINE)
