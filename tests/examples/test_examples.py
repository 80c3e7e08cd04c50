"""The examples and the demo run on the embedded model, as a new user starts them."""

import os
import subprocess
import sys

import pytest

from tests.architecture.repository import ROOT


def _run(name: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    command = [sys.executable, str(ROOT / "examples" / name)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=1800)


@pytest.mark.engine
@pytest.mark.contract("API-2", "REQ-1", "TOOL-4", "THK-7", "CON-1")
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("extraction.py", '"sender": '),
        ("classification.py", "The app crashes"),
        ("grammar.py", " -> "),
        ("agent.py", "look_up({"),
        ("thinking.py", "reasoning tokens:"),
        ("continuation.py", "is refused: existing content"),
    ],
)
def test_example_shows_valid_output(name: str, shown: str) -> None:
    done = _run(name)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.server
@pytest.mark.contract("API-2", "API-3", "API-10", "ERR-2", "OBS-1", "OBS-2")
def test_demo_finds_every_check_to_hold() -> None:
    done = _run("first_light.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every check holds." in done.stdout
    assert "FAILED" not in done.stdout
