"""Bodies of the /ninfer endpoints: read under a bound, never trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, get_args

from starlette.requests import Request

from ninfer_vllm.constraint import Constraint, OutputConstraint, ToolConstraint, UnknownKeywords
from ninfer_vllm.limits import SCHEMA_TEXT_CHARS

BODY_BYTES = 4 * SCHEMA_TEXT_CHARS
"""Bytes of a body: as much as the largest text that any language takes, a character having up to four."""

KINDS = ("json_schema", "json_object", "regex", "grammar", "choice", "tools")


class UnusableBody(Exception):
    """A body that cannot be judged; `status` is its HTTP status."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object of a request's body.

    Errors: UnusableBody.
    """
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > BODY_BYTES:
            raise UnusableBody(f"the body is larger than {BODY_BYTES} bytes", 413)
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnusableBody(f"the body is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise UnusableBody("the body is no JSON object")
    return body


def constraint_in(body: Mapping[str, Any], unknown_keywords: UnknownKeywords = "refuse") -> Constraint:
    """The constraint that `kind` and `source` of a body state; `unknown_keywords` is the server's own setting.

    Errors: UnusableBody for a body of another shape; ConstraintError where the constraint itself is refused.
    """
    kind = _one_of(body.get("kind"), "kind", KINDS)
    mode = _one_of(
        body.get("unknown_schema_keywords", unknown_keywords), "unknown_schema_keywords", get_args(UnknownKeywords)
    )
    if kind == "json_object":
        return OutputConstraint.json_object()
    if "source" not in body:
        raise UnusableBody("`source` is missing: the text of the constraint, or its JSON")
    make = _makers(body, mode)[kind]
    return make(body["source"])


def text_in(body: Mapping[str, Any], name: str, most: int) -> str:
    """A text of at most `most` characters; empty where it is absent.

    Errors: UnusableBody.
    """
    text = body.get(name, "")
    if not isinstance(text, str):
        raise UnusableBody(f"`{name}` is no text")
    if len(text) > most:
        raise UnusableBody(f"`{name}` is longer than {most} characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UnusableBody(f"`{name}` holds an unpaired surrogate")
    return text


def number_in(body: Mapping[str, Any], name: str) -> int:
    """A whole number from 0; 0 where it is absent.

    Errors: UnusableBody.
    """
    number = body.get(name, 0)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise UnusableBody(f"`{name}` is no whole number from 0")
    return number


def _makers(body: Mapping[str, Any], mode: Any) -> dict[str, Callable[[Any], Constraint]]:
    return {
        "json_schema": lambda source: _json_schema(source, mode),
        "regex": OutputConstraint.regex,
        "grammar": OutputConstraint.grammar,
        "choice": OutputConstraint.choice,
        "tools": lambda source: ToolConstraint(source, body.get("tool_choice", "auto"), unknown_keywords=mode),
    }


def _json_schema(source: object, mode: UnknownKeywords) -> OutputConstraint:
    if not isinstance(source, str | dict | bool):
        raise UnusableBody("`source` is no JSON Schema: expected an object, a boolean, or their text")
    return OutputConstraint.json_schema(source, unknown_keywords=mode)


def _one_of(value: object, name: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise UnusableBody(f"`{name}` is not one of {', '.join(allowed)}")
    return str(value)
