"""Random members of compiled languages are valid for a validator that checks formats too."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from jsonschema import ValidationError, validators
from jsonschema.protocols import Validator
from referencing.exceptions import Unresolvable

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.ninfer_vllm.languages.json_schema.test_official_suite import DECIDED_OTHERWISE, URIS
from tests.support.collections import collection

EVERY = int(os.environ.get("NINFER_GENERATED_EVERY", "25"))
"""Members of one schema in so many are generated."""

NUM_MEMBERS = 20
MEMBER_BYTES = 120
OPTIONS = JsonOptions(unknown_keywords="annotation")

# Where the validator itself is not exact: its `multipleOf` divides binary64 values, and `\\d`, `\\w`, `\\s` and `$`
# mean more in Python's expressions than in ECMAScript's.
INEXACT = ("multipleOf", "pattern", "patternProperties", "$dynamicRef", "$recursiveRef")


def _schemas(name: str) -> Iterator[tuple[str, Any]]:
    for row in islice(collection(name), 0, None, EVERY):
        if name == "real-schemas":
            yield row["id"], row["schema"]
        elif isinstance(row["schema"], dict) and not row["file"].endswith(DECIDED_OTHERWISE):
            yield f"{row['file']}: {row['description']}", {"$schema": URIS[row["draft"]], **row["schema"]}


def _lowered(schema: Any) -> Grammar | None:
    try:
        return lower_json_schema(json.dumps(schema), OPTIONS)
    except ConstraintError:
        return None


def _validator(schema: Any) -> Validator:
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def _is_inexact(error: ValidationError) -> bool:
    """Whether the validator is known to decide such things wrongly."""
    if error.validator == "format":
        # Its grammars of RFC 3987 and RFC 6570 lack planes that both name.
        return any(char > "\uffff" for char in error.instance)
    if error.validator == "unevaluatedProperties":
        # For 2019-09 it takes members for unevaluated that additionalProperties beside it evaluates.
        return "additionalProperties" in error.schema
    if any(map(_is_inexact, error.context or ())):
        return True
    return not set(INEXACT).isdisjoint(error.absolute_schema_path)


@pytest.mark.contract("GEN-3", "JSO-3", "JSO-4", "JSO-5", "JSX-1", "JSC-3", "JST-2")
@pytest.mark.parametrize("name", ["json-schema-test-suite", "real-schemas"])
def test_members_are_valid(name: str) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for where, schema in _schemas(name):
        grammar = _lowered(schema)
        if grammar is None:
            continue
        counts["compiled"] += 1
        validator, rng = _validator(schema), random.Random(where)
        for _ in range(NUM_MEMBERS):
            text = sample(grammar, rng, MEMBER_BYTES).decode()
            try:
                errors = list(validator.iter_errors(json.loads(text)))
            except (Unresolvable, RecursionError, re.error):
                counts["no verdict"] += 1
                continue
            counts["members"] += 1
            if not all(map(_is_inexact, errors)):
                wrong.append(f"{where}: {text}: {errors[0].message}")
            elif errors:
                counts["left to other tests"] += 1
    print(dict(counts))
    assert wrong == []
    assert counts["members"] > 0
    assert counts["left to other tests"] < counts["members"] // 20
