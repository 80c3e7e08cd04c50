"""Print how much of the official JSON Schema test suite and of real schemas is supported, a keyword a row.

Usage: python -m tests.json_schema_coverage > docs/json_schema_coverage.md

A group of the suite is one schema with its instances; its file is named for the keyword that it is about. Here only
what compiles is counted; that whatever compiles decides every instance right is what the tests prove.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError, Unsatisfiable
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.ninfer_vllm.languages.json_schema.test_official_suite import URIS
from tests.support.collections import collection

NEWEST = "draft2020-12"

HEAD = """# Coverage of JSON Schema

How much is supported, counted over two collections of schemas. What is not supported is refused with its place; what is
supported decides every instance of both collections right, which the tests of the JSON Schema language check.
`python -m tests.json_schema_coverage` repeats the count, and `NINFER_REAL_SCHEMAS_EVERY=1 NINFER_GENERATED_EVERY=1
pytest tests/ninfer_vllm/languages/json_schema` the whole proof; without the variables, the suite is judged whole and
the real schemas are sampled.
"""


def outcome(schema: Any, options: JsonOptions) -> str:
    """`compiled`, where it is known that nothing satisfies the schema too, or the error's code."""
    try:
        lower_json_schema(json.dumps(schema), options)
    except Unsatisfiable:
        return "compiled"
    except ConstraintError as error:
        return error.code
    return "compiled"


def suite() -> Iterator[tuple[str, str, bool, str]]:
    """Draft, keyword, whether it is optional, and outcome of every group."""
    for group in collection("json-schema-test-suite"):
        schema = group["schema"]
        if isinstance(schema, dict):
            schema = {"$schema": URIS[group["draft"]], **schema}
        path = PurePosixPath(group["file"])
        yield group["draft"], path.stem, "optional" in path.parts, outcome(schema, JsonOptions())


def source_of(identity: str) -> str:
    """Where a real schema is from: `Github_easy---o1` and `BFCL_java_56` begin with it."""
    return identity.partition("---")[0] if "---" in identity else identity.partition("_")[0]


def table(heading: tuple[str, ...], rows: dict[tuple[str, ...], Counter[str]]) -> Iterator[str]:
    """A Markdown table of counters."""
    yield f"| {' | '.join(heading)} | supported | of | share |"
    yield "|" + "---|" * (len(heading) + 3)
    for names, counts in rows.items():
        total = counts.total()
        yield f"| {' | '.join(names)} | {counts['compiled']} | {total} | {counts['compiled'] / total:.0%} |"


def main() -> None:
    """Print the page."""
    drafts: dict[tuple[str, ...], Counter[str]] = {}
    keywords: dict[tuple[str, ...], Counter[str]] = {}
    for draft, keyword, is_optional, found in suite():
        drafts.setdefault((draft, "optional" if is_optional else "required"), Counter())[found] += 1
        if draft == NEWEST and not is_optional:
            keywords.setdefault((f"`{keyword}`",), Counter())[found] += 1
    real: dict[tuple[str, ...], Counter[str]] = {}
    for row in collection("real-schemas"):
        found = outcome(row["schema"], JsonOptions(unknown_keywords="annotation"))
        real.setdefault((source_of(row["id"]),), Counter())[found] += 1
    real[("all",)] = sum(real.values(), Counter())
    lines = [
        HEAD,
        "## The official suite, by draft",
        "",
        *table(("draft", "part"), drafts),
        "",
        f"## The required part of {NEWEST.removeprefix('draft')}, by keyword",
        "",
        *table(("keyword",), dict(sorted(keywords.items()))),
        "",
        "## Real schemas, unknown keywords taken for annotations",
        "",
        *table(("collection",), real),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
