"""Raw parameter values of the xml dialect as JSON texts, by what the contract knows of them (TOOL-3, TOOL-7)."""

from __future__ import annotations

from ninfer_vllm.languages.json_schema.literals import spell
from qwen_frontend.tools.contract import Tool
from qwen_frontend.tools.hints import type_of
from qwen_frontend.tools.json_texts import WHITE_SPACE, may_be_json, read
from qwen_frontend.tools.xml import raw_values


def published(tool: Tool, key: str, value: str) -> str:
    """The JSON text that a raw value stands for; JSON values stay as they are written, big numbers included."""
    return _strict(tool, key, value) if tool.is_strict else _hinted(tool, key, value)


def _strict(tool: Tool, key: str, value: str) -> str:
    member = next((member for member in tool.object.members if member.name == key), None)
    if member is None:
        raise ValueError(f"the parameter {key!r} is not declared")
    if not member.others or (member.has_strings and member.raw(raw_values()).accepts(value)):
        return spell(value)
    if not may_be_json(value):
        raise ValueError(f"the value of {key!r} is no JSON")
    return value


def _hinted(tool: Tool, key: str, value: str) -> str:
    """A JSON value of a type that the schema names, else a string where that may be one, else JSON, else a string."""
    types = tool.hints.of(key)
    if types is None or types == {"string"}:
        return spell(value)
    parsed = read(value)
    kind = type_of(parsed[0]) if parsed else "string"
    is_json = bool(parsed) and ("string" not in types or (kind != "string" and kind in types))
    return value.strip(WHITE_SPACE) if is_json else spell(value)
