"""The keyword table as the page "What is enforced, and what is refused" shows it.

`python -m ninfer_vllm.languages.json_schema.support` prints it; a test keeps the page equal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from ninfer_vllm.languages.json_schema.dialects import Dialect
from ninfer_vllm.languages.json_schema.formats import NOT_REGULAR, RANGES, TEXT_FORMATS
from ninfer_vllm.languages.json_schema.keywords import EXTENSION_PREFIX, TABLE, Keyword


def keyword_table() -> str:
    """The table of all keywords and that of the formats, in Markdown."""
    rows = ["| keywords | | dialects | |", "|---|---|---|---|", *_rows()]
    formats = ["| | formats |", "|---|---|", *_formats()]
    return "\n".join((*rows, "", *formats))


def _rows() -> Iterator[str]:
    """One row for neighbours of which the same is said."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for keyword in TABLE:
        groups.setdefault((_verdict(keyword), _dialects(keyword), _notes(keyword)), []).append(keyword.name)
    for (verdict, dialects, notes), names in groups.items():
        yield f"| {_listed(names)} | {verdict} | {dialects} | {notes} |"
    yield f"| `{EXTENSION_PREFIX}*` | annotations | all | |"


def _verdict(keyword: Keyword) -> str:
    if keyword.role == "assertion":
        return "enforced exactly, within limits" if keyword.limits else "enforced exactly"
    return {"annotation": "annotations", "location": "read", "refused": "refused"}[keyword.role]


def _notes(keyword: Keyword) -> str:
    return "; ".join(filter(None, (keyword.means, keyword.limits, keyword.advice)))


def _dialects(keyword: Keyword) -> str:
    first, last = min(Dialect), max(Dialect)
    if (keyword.since, keyword.until) == (first, last):
        return "all"
    if keyword.since == keyword.until:
        return keyword.since.title
    return f"up to {keyword.until.title}" if keyword.since == first else f"from {keyword.since.title}"


def _formats() -> Iterator[str]:
    without_effect = 'with `unknown_schema_keywords="annotation"` without effect, as the standard says'
    yield f"| enforced exactly, as the language of their RFC | {_listed(TEXT_FORMATS)} |"
    yield f"| enforced exactly, as a range of numbers | {_listed(RANGES)} |"
    yield f"| refused, since no automaton decides them | {_listed(NOT_REGULAR)} |"
    yield f"| refused; {without_effect} | any other |"


def _listed(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(keyword_table() + "\n")
