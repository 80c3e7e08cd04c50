"""The open cases that lie beside a checkout, where they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "cases"
FILE = FOLDER / "cases_open.jsonl"


def open_cases(kind: str) -> list[Any]:
    """One pytest parameter a case of the kind; a single skipped one where the cases are absent."""
    if not FILE.is_file():
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(reason="the open cases are not there"))]
    rows = (json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines())
    return [pytest.param(row, id=row["id"]) for row in rows if row["kind"] == kind]


def misjudged(case: dict[str, Any], accepts: Any) -> list[str]:
    """The texts of a case that `accepts` decides otherwise than the case says."""
    wrong = [text for text in case["accept"] if not accepts(text)]
    return wrong + [text for text in case["reject"] if accepts(text)]
