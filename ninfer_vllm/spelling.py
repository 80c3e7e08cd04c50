"""JSON texts of values that a caller gave, or the place of the first part that has none; how places are written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite

from ninfer_vllm.errors import ConstraintError, InvalidSchema, LimitExceeded
from ninfer_vllm.limits import NESTING_DEPTH

LINE_END = re.compile(r"\r\n|\r|\n")


def schema_text(schema: object) -> str:
    """The JSON text of a schema; the key order of its objects is kept.

    Errors: InvalidSchema at the JSON Pointer of what has no JSON spelling; LimitExceeded at that of what is nested
    deeper than `NESTING_DEPTH`.
    """
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _fault(schema) or InvalidSchema("", f"the schema has no JSON spelling: {error}") from None
    if unpaired(text) is not None:
        raise _fault(schema) or InvalidSchema("", "the schema holds an unpaired surrogate")
    return text


def unpaired(text: str) -> int | None:
    """The offset of the first unpaired surrogate of a text, None where it is Unicode text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def child(pointer: str, token: object) -> str:
    """The JSON Pointer to a member or an item of the value at `pointer`."""
    return f"{pointer}/{str(token).replace('~', '~0').replace('/', '~1')}"


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1; columns count characters."""
    lines = LINE_END.split(text[:offset])
    return len(lines), len(lines[-1]) + 1


def _fault(schema: object) -> ConstraintError | None:
    """The error of the first part, in reading order, that has no JSON spelling."""
    todo: list[tuple[object, str, int]] = [(schema, "", 0)]
    while todo:
        value, pointer, depth = todo.pop()
        if not isinstance(value, Mapping | list | tuple):
            reason = _reason(value)
            if reason is not None:
                return InvalidSchema(pointer, reason)
            continue
        if depth >= NESTING_DEPTH:
            return LimitExceeded("nesting_depth", NESTING_DEPTH, depth + 1, pointer)
        if not isinstance(value, dict | list | tuple):
            return InvalidSchema(pointer, f"{type(value).__name__} is not JSON: give a dict")
        members = list(value.items() if isinstance(value, dict) else enumerate(value))
        for name, _ in members:
            reason = _reason(name) if isinstance(name, str | float | int | None) else f"the key {name!r} is not text"
            if reason is not None:
                return InvalidSchema(pointer, reason.replace("the text", "a key"))
        todo.extend((below, child(pointer, name), depth + 1) for name, below in reversed(members))
    return None


def _reason(value: object) -> str | None:
    """Why a scalar has no JSON spelling, None where it has one."""
    if isinstance(value, str):
        return None if unpaired(value) is None else "the text holds an unpaired surrogate, which is no character"
    if isinstance(value, float):
        return None if isfinite(value) else f"JSON has no number {value!r}"
    if value is None or isinstance(value, int):
        return None
    return f"{type(value).__name__} is not JSON"
