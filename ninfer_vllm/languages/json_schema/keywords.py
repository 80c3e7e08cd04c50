"""The keyword table: which dialect knows a keyword, and whether it is enforced, an annotation or refused."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from ninfer_vllm.languages.json_schema.dialects import Dialect

Role = Literal["assertion", "annotation", "location", "refused"]
"""Enforced; without effect on values (JSD-6); a place that holds or names schemas; known but not enforced (JSC-6)."""

EXTENSION_PREFIX = "x-"
FIRST, LAST = Dialect.DRAFT_04, Dialect.DRAFT_2020_12


@dataclass(frozen=True, slots=True)
class Keyword:
    """One keyword in the dialects from `since` to `until`."""

    name: str
    role: Role
    since: Dialect = FIRST
    until: Dialect = LAST
    advice: str = ""
    """What to do instead, for a refused keyword."""
    means: str = ""
    """How an enforced keyword is read, where that needs saying."""
    limits: str = ""
    """Up to where an enforced keyword is supported; beyond, it is refused. Without, it is exact everywhere."""


def _rows(
    role: Role, names: str, since: Dialect = FIRST, until: Dialect = LAST, *, means: str = "", limits: str = ""
) -> tuple[Keyword, ...]:
    return tuple(Keyword(name, role, since, until, means=means, limits=limits) for name in names.split())


D06, D07, D19 = Dialect.DRAFT_06, Dialect.DRAFT_07, Dialect.DRAFT_2019_09
D20 = Dialect.DRAFT_2020_12

TABLE = (
    *_rows("location", "$schema", means="the dialect of the whole document"),
    *_rows("location", "id", until=FIRST, means="the document's own name"),
    *_rows("location", "$id", D06, means="the document's own name"),
    *_rows("location", "definitions"),
    *_rows("location", "$defs", D19),
    *_rows("assertion", "$ref", means="inside the document, recursion included; nothing is ever fetched"),
    *_rows("assertion", "type enum"),
    *_rows("assertion", "allOf anyOf"),
    *_rows("assertion", "oneOf", means="members that may overlap are subtracted from each other"),
    *_rows("assertion", "const", D06),
    *_rows("assertion", "properties required additionalProperties"),
    *_rows("assertion", "items minItems maxItems"),
    *_rows("assertion", "additionalItems", until=D19),
    *_rows("assertion", "prefixItems", D20),
    *_rows(
        "assertion", "minLength maxLength", means="in characters", limits="8,192 characters beside pattern or format"
    ),
    *_rows(
        "assertion",
        "minimum maximum exclusiveMinimum exclusiveMaximum",
        means="integers are signed 64-bit, other numbers finite binary64 of at most 17 digits",
    ),
    *_rows("annotation", "title description default examples example $comment readOnly writeOnly deprecated"),
    *_rows("annotation", "contentEncoding contentMediaType contentSchema"),
    *_rows("annotation", "discriminator externalDocs xml"),
    *_rows(
        "assertion",
        "pattern",
        means="a search in the decoded value, in the expressions of the next section",
        limits="65,536 states",
    ),
    *_rows("assertion", "format", means="an assertion in every dialect", limits="the formats below"),
    *_rows("assertion", "multipleOf", limits="remainders of 2,048 states; beside it, plain decimals of 15 digits"),
    *_rows("assertion", "patternProperties", limits="256 classes of keys"),
    *_rows("assertion", "minProperties", limits="not where it counts two or more undeclared keys, which may repeat"),
    *_rows("assertion", "maxProperties"),
    *_rows("assertion", "propertyNames", D06, limits="65,536 states"),
    *_rows("assertion", "dependentRequired dependentSchemas", D19),
    *_rows("assertion", "dependencies"),
    *_rows("assertion", "uniqueItems", limits="items of at most 64 values, or at most one item; not beside contains"),
    *_rows("assertion", "contains", D06, limits="4,096 states of one array; not beside unevaluatedItems"),
    *_rows("assertion", "minContains maxContains", D19, limits="4,096 states of one array"),
    *_rows("assertion", "not", limits="not of uniqueItems, unevaluatedProperties and unevaluatedItems"),
    *_rows("assertion", "if then else", D07, limits="a condition whose opposite is supported, see not"),
    *_rows("assertion", "unevaluatedProperties unevaluatedItems", D19, limits="not beside const or enum"),
    Keyword("$anchor", "refused", D19, advice="refer to the schema by a JSON Pointer"),
    Keyword("$dynamicAnchor", "refused", D20, advice="refer to the schema by a JSON Pointer"),
    Keyword("$dynamicRef", "refused", D20, advice="use $ref with a JSON Pointer"),
    Keyword("$recursiveAnchor", "refused", D19, D19, advice="refer to the schema by a JSON Pointer"),
    Keyword("$recursiveRef", "refused", D19, D19, advice="use $ref with a JSON Pointer"),
    Keyword("$vocabulary", "refused", D19, advice="leave it out: vocabularies belong to metaschemas"),
)
BY_NAME = {keyword.name: keyword for keyword in TABLE}
NAMES = tuple(BY_NAME)


def find(name: str, dialect: Dialect) -> Keyword | None:
    """The keyword of this name in a dialect, or None where the dialect does not know it."""
    if name.startswith(EXTENSION_PREFIX):
        return Keyword(name, "annotation")
    keyword = BY_NAME.get(name)
    return keyword if keyword is not None and keyword.since <= dialect <= keyword.until else None


def unknown_reason(name: str, dialect: Dialect) -> str:
    """Why a keyword that the dialect does not know is refused, with the nearest one that it knows."""
    other = BY_NAME.get(name)
    if other is not None:
        return f"{name} is not a keyword of {dialect.title}; it belongs to {_span(other)}"
    near = get_close_matches(name, (known for known in NAMES if find(known, dialect)), n=1)
    return f"unknown keyword {name}" + (f": did you mean {near[0]}?" if near else "")


def _span(keyword: Keyword) -> str:
    if keyword.since == FIRST:
        return f"{keyword.until.title} and older"
    return f"{keyword.since.title} and newer" if keyword.until == LAST else keyword.since.title
