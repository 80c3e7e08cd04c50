"""A real engine on the host's V2 runner, every kernel in Triton's interpreter: masks, drafts, tokens and faults."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.v2_engine import CHOICES

pytestmark = pytest.mark.engine


@pytest.mark.contract("SPC-7", "MSK-1", "SMP-4", "ERR-4", "ERR-5", "ENG-6")
def test_constrained_requests_are_answered_and_fail_alone_on_the_v2_runner() -> None:
    run = subprocess.run([sys.executable, "-m", "tests.support.v2_engine"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    answers = found["answers"]
    assert found["is_v2"] is True
    assert found["num_verified"] > 0, "no draft was verified: the test shows little"
    for name in ("greedy", "sampled"):
        assert answers[name]["text"] in CHOICES
        assert (answers[name]["finish"], answers[name]["is_constrained"]) == ("stop", True)
    assert (answers["failing"]["text"], answers["failing"]["num_tokens"]) == ("", 0)
    assert (answers["failing"]["finish"], answers["failing"]["stop"]) == ("error", "constraint_dead_end")
    assert (answers["free"]["num_tokens"], answers["free"]["is_constrained"]) == (3, False)
