"""Tools that the protocol tests declare, in each protocol's own spelling."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

BOOK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Rome", "Oslo"]},
        "nights": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "nights"],
    "additionalProperties": False,
}
PING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
SCHEMAS = {"book": BOOK, "ping": PING}


def chat_tools(*, strict: bool = True) -> list[dict[str, Any]]:
    """As Chat declares them."""
    return [
        {"type": "function", "function": {"name": name, "parameters": schema, "strict": strict}}
        for name, schema in SCHEMAS.items()
    ]


def responses_tools(*, strict: bool = True) -> list[dict[str, Any]]:
    """As Responses declares them."""
    return [
        {"type": "function", "name": name, "parameters": schema, "strict": strict} for name, schema in SCHEMAS.items()
    ]


def messages_tools(*, strict: bool = True) -> list[dict[str, Any]]:
    """As Anthropic's Messages declares them."""
    return [{"name": name, "input_schema": schema, "strict": strict} for name, schema in SCHEMAS.items()]


def check_call(name: str, arguments: str | dict[str, Any]) -> None:
    """That a published call's arguments are valid against the schema of its tool, by an independent validator."""
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    jsonschema.validate(value, SCHEMAS[name])
