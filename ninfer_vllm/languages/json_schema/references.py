"""JSON Pointers, and the places that `$ref` names inside a document (JSD-3, JSD-4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from ninfer_vllm.errors import InvalidSchema, UnsupportedSchema
from ninfer_vllm.languages.json_schema.document import Json
from ninfer_vllm.spelling import child

ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
BAD_ESCAPE = re.compile(r"~(?![01])")


def resolve(root: Json, reference: str, base: str, pointer: str) -> tuple[str, Json]:
    """The canonical pointer and the value that `reference` names; `base` is the document's own URI.

    Errors (at `pointer`, where the reference stands): UnsupportedSchema for other documents and plain-name anchors,
    InvalidSchema for a pointer to nothing.
    """
    uri, _, fragment = reference.partition("#")
    if uri and uri != base.partition("#")[0]:
        raise UnsupportedSchema(
            pointer,
            "$ref",
            f"$ref {reference!r} names another document; nothing is ever fetched: copy the definition into $defs",
        )
    fragment = unquote(fragment, errors="strict") if _decodes(fragment) else fragment
    if fragment and not fragment.startswith("/"):
        raise UnsupportedSchema(
            pointer, "$ref", f"$ref {reference!r} names an anchor: write a JSON Pointer such as '#/$defs/name'"
        )
    if BAD_ESCAPE.search(fragment):
        raise InvalidSchema(pointer, f"$ref {reference!r}: in a JSON Pointer ~ is followed by 0 or 1")
    return _walk(root, reference, fragment, pointer)


def _decodes(fragment: str) -> bool:
    try:
        unquote(fragment, errors="strict")
    except UnicodeDecodeError:
        return False
    return True


def _walk(root: Json, reference: str, fragment: str, pointer: str) -> tuple[str, Json]:
    value, place = root, ""
    for token in _tokens(fragment):
        nested_id = isinstance(value, dict) and place and isinstance(value.get("$id"), str)
        if nested_id and not place.endswith(("/properties", "/$defs", "/definitions")):
            raise UnsupportedSchema(pointer, "$ref", f"$ref {reference!r} leads through a nested $id at {place}")
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and ARRAY_INDEX.fullmatch(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            raise InvalidSchema(pointer, f"$ref {reference!r} names nothing: {place or 'the root'} has no {token!r}")
        place = child(place, token)
    return place, value


def _tokens(fragment: str) -> Iterator[str]:
    for token in fragment.split("/")[1:]:
        yield token.replace("~1", "/").replace("~0", "~")
