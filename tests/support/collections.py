"""The public schema collections that lie beside a checkout, where they do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def collection(name: str) -> Iterator[dict[str, Any]]:
    """The rows of a collection; the test is skipped where it is absent."""
    path = FOLDER / f"{name}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"the collection {name} is not there")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
