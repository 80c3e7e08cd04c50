"""Real schemas with real values: compiled ones decide every value right, and lowering stays fast."""

from __future__ import annotations

import json
import os
from collections import Counter
from itertools import islice
from typing import Any

import pytest

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.support.collections import collection
from tests.support.effort import cpu_within
from tests.support.oracles.json_texts import find_spelling, spellings
from tests.support.oracles.recogniser import Recogniser

OPTIONS = JsonOptions(unknown_keywords="annotation")
EVERY = int(os.environ.get("NINFER_REAL_SCHEMAS_EVERY", "4"))
"""One schema in so many is compiled: all of them take minutes in the plain recogniser."""

MAX_VALUE_CHARS = 1_500
LEAST_SHARE = 0.85
MAX_LOWERING_S = 10.0


@pytest.mark.contract("JSC-3", "JSC-4", "JST-2", "JSD-7", "JSX-11")
def test_real_values_are_decided_right() -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for row in islice(collection("real-schemas"), 0, None, EVERY):
        counts["schemas"] += 1
        with cpu_within(MAX_LOWERING_S):
            try:
                grammar = lower_json_schema(json.dumps(row["schema"]), OPTIONS)
            except ConstraintError as error:
                counts[type(error).__name__] += 1
                if "pointer" not in error.place:
                    wrong.append(f"{row['id']}: {error}")
                continue
        counts["compiled"] += 1
        recogniser = Recogniser(grammar)
        for test in row["tests"]:
            if len(json.dumps(test["data"])) <= MAX_VALUE_CHARS:
                counts["values"] += 1
                if not _is_decided_right(recogniser, test, row["schema"]):
                    wrong.append(f"{row['id']}: {test}")
    print(dict(counts))
    assert wrong == []
    assert counts["compiled"] >= LEAST_SHARE * counts["schemas"]


def _is_decided_right(recogniser: Recogniser, test: dict[str, Any], schema: object) -> bool:
    """Likely orders of the members are tried; for a valid value that is in none of them, every order."""
    accepted = any(recogniser.accepts(text) for text in spellings(test["data"], schema, 10))
    if accepted or not test["valid"]:
        return accepted == test["valid"]
    found = find_spelling(test["data"], recogniser.is_prefix)
    return found is not None and recogniser.accepts(found)
