"""The rejection kernels of the host's V2 runner, in Triton's interpreter, with drafts left alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.oracles.chi_square import is_consistent
from tests.support.v2_kernels import NUM_ROWS, A, B

pytestmark = pytest.mark.slow


@pytest.mark.contract("SPC-3", "SPC-7", "MSK-1", "SPC-6")
def test_untouched_drafts_leave_the_target_as_it_is() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.support.v2_kernels"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["finite"] == [A, B]
    counts = {kind: {int(token): count for token, count in own.items()} for kind, own in found["counts"].items()}
    for kind in ("sparse", "one-hot"):
        assert is_consistent(counts[kind], {A: 0.5, B: 0.5})
    # What cutting illegal drafts off would give.
    assert not is_consistent(counts["sparse"], {A: 0.75, B: 0.25})
    assert counts["greedy"] == {A: NUM_ROWS}
