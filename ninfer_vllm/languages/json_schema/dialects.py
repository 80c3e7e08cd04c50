"""The drafts of JSON Schema, and which one a document is written in (JSD-1)."""

from __future__ import annotations

from enum import IntEnum

from ninfer_vllm.errors import InvalidSchema, UnsupportedSchema
from ninfer_vllm.languages.json_schema.document import Json


class Dialect(IntEnum):
    """A draft; later drafts compare greater."""

    DRAFT_04 = 4
    DRAFT_06 = 6
    DRAFT_07 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020

    @property
    def title(self) -> str:
        """The name people use."""
        return TITLES[self]

    @property
    def applies_ref_siblings(self) -> bool:
        """Whether keywords beside `$ref` count."""
        return self >= Dialect.DRAFT_2019_09

    @property
    def id_keyword(self) -> str:
        """The keyword that names a document."""
        return "id" if self is Dialect.DRAFT_04 else "$id"


TITLES = {
    Dialect.DRAFT_04: "draft-04",
    Dialect.DRAFT_06: "draft-06",
    Dialect.DRAFT_07: "draft-07",
    Dialect.DRAFT_2019_09: "2019-09",
    Dialect.DRAFT_2020_12: "2020-12",
}
URIS = {
    "json-schema.org/draft-04/schema": Dialect.DRAFT_04,
    "json-schema.org/draft-06/schema": Dialect.DRAFT_06,
    "json-schema.org/draft-07/schema": Dialect.DRAFT_07,
    "json-schema.org/draft/2019-09/schema": Dialect.DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": Dialect.DRAFT_2020_12,
}
DEFAULT_DIALECT = Dialect.DRAFT_2020_12


def dialect_of(document: Json) -> Dialect:
    """The dialect that a document's `$schema` names; 2020-12 where it names none.

    Errors: UnsupportedSchema at `/$schema` for any other dialect.
    """
    if not isinstance(document, dict) or "$schema" not in document:
        return DEFAULT_DIALECT
    return named_dialect(document["$schema"], "/$schema")


def named_dialect(uri: Json, pointer: str) -> Dialect:
    """The dialect a `$schema` value names."""
    if not isinstance(uri, str):
        raise InvalidSchema(pointer, "$schema must be a string")
    dialect = URIS.get(uri.removesuffix("#").removeprefix("https://").removeprefix("http://"))
    if dialect is None:
        known = ", ".join(TITLES.values())
        raise UnsupportedSchema(pointer, "$schema", f"the dialect {uri!r} is not supported; supported: {known}")
    return dialect
