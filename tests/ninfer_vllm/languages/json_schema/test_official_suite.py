"""The official JSON-Schema-Test-Suite: every group is decided right in all its instances, or refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError, Unsatisfiable
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.support.collections import collection
from tests.support.oracles.json_texts import is_publishable, spellings
from tests.support.oracles.recogniser import Recogniser

URIS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
# What the contract decides otherwise: contentEncoding and contentMediaType are annotations (JSD-6), 1.0 is compared by
# its value, which is written 1 (JSO-5), and a format is an assertion in every dialect (JSX-1).
DECIDED_OTHERWISE = (
    "optional/content.json",
    "draft4/optional/zeroTerminatedFloats.json",
    *(f"{draft}/format.json" for draft in ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12")),
)
# Valid texts that the formats leave out: leap seconds, and host names with `--` in third and fourth place: later drafts
# keep those for Punycode, whose check is not regular.
LEFT_OUT = re.compile(r":60(\.[0-9]+)?([Zz]|[+-]\d\d:\d\d)$|(^|\.)..--")
LEAST_COMPILED = 1_300
"""Groups that compiled when this was written, rounded down: fewer would be a loss."""


@pytest.mark.contract(
    "JSD-1", "JSD-4", "JST-1", "JST-2", "JST-4", "JST-6", "JST-7", "JSC-1", "JSC-2", "JSC-3", "JSC-6", "GEN-6"
)
@pytest.mark.parametrize("unknown", ["annotation", "refuse"])
def test_suite_is_decided_right_or_refused(unknown: str) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for group in collection("json-schema-test-suite"):
        if not group["file"].endswith(DECIDED_OTHERWISE):
            wrong += judge(group, JsonOptions(unknown_keywords=unknown), counts)  # type: ignore[arg-type]
    print(dict(counts))
    assert wrong == []
    assert counts["compiled"] >= LEAST_COMPILED


def judge(group: dict[str, Any], options: JsonOptions, counts: Counter[str]) -> list[str]:
    """What the group's grammar decides wrongly."""
    schema = group["schema"]
    if isinstance(schema, dict):
        schema = {"$schema": URIS[group["draft"]], **schema}
    elif group["draft"] == "draft4":
        return []
    try:
        recogniser = Recogniser(lower_json_schema(json.dumps(schema), options))
    except ConstraintError as error:
        counts[type(error).__name__] += 1
        has_value = any(test["valid"] for test in group["tests"])
        is_wrong = not error.place or (isinstance(error, Unsatisfiable) and has_value)
        return [f"{group['description']}: {error}"] if is_wrong else []
    counts["compiled"] += 1
    return [
        f"{group['file']}: {group['description']}: {test['description']}"
        for test in group["tests"]
        if not is_decided_right(recogniser, test, schema, counts, group["file"])
    ]


def is_decided_right(
    recogniser: Recogniser, test: dict[str, Any], schema: Any, counts: Counter[str], group_file: str
) -> bool:
    accepted = any(recogniser.accepts(text) for text in spellings(test["data"], schema))
    if test["valid"] and not accepted and not is_publishable(test["data"]):
        counts["outside the number range"] += 1
        return True
    if test["valid"] and not accepted and "format/" in group_file and LEFT_OUT.search(str(test["data"])):
        counts["left out of a format"] += 1
        return True
    counts["instances"] += 1
    return accepted == test["valid"]
