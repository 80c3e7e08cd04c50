"""The GPU script as far as it goes without a GPU: tiny sizes in the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "run.sh"


def test_script_checks_every_kernel_and_prints_its_table(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    run = subprocess.run(
        [str(SCRIPT), "--interpret", "--out", str(table)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "correctness: 0 disagreements" in run.stdout
    text = table.read_text(encoding="utf-8")
    for operation in ("apply_mask", "masked_argmax", "select_candidates", "verify one-hot", "verify sparse"):
        assert f"| {operation} | 2 | 2 | 33 |" in text
