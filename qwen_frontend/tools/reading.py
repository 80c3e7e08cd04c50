"""The text between the control tokens of a call, read exactly where it was constrained, kindly where it was not.

Errors are ValueErrors that say what cannot be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from qwen_frontend.tools import hermes, xml
from qwen_frontend.tools.contract import Tool, ToolContract
from qwen_frontend.tools.json_texts import WHITE_SPACE, members, object_of, read
from qwen_frontend.tools.values import published

FUNCTION = re.compile(r"\s*<function=([^>\n]+)>\n?")
PARAMETER = re.compile(r"\s*<parameter=([^>\n]*)>")
END = re.compile(r"\s*</function>\s*")
STARTS = {"xml": xml.OPEN_FUNCTION, "hermes": "{"}


@dataclass(frozen=True, slots=True)
class Call:
    """A complete call."""

    name: str
    arguments: str
    """JSON text of an object."""


def read_exactly(contract: ToolContract, text: str) -> Call:
    """The call that a constrained text holds."""
    for tool in contract.callable:
        if contract.dialect == "hermes":
            opening = hermes.opening(tool.name)
            if text.startswith(opening) and text.endswith(hermes.CLOSING):
                return Call(tool.name, _arguments(tool, text[len(opening) : -len(hermes.CLOSING)]))
        else:
            opening = xml.opening(tool.name)
            if text.startswith(opening):
                return _written(tool, _exact_parameters(text[len(opening) :]))
    _fail("no tool of that name may be called")


def read_kindly(contract: ToolContract, text: str) -> Call:
    """The call that a free text holds; line breaks and white space around its parts may be missing."""
    return _kind_object(contract, text) if contract.dialect == "hermes" else _kind_elements(contract, text)


def begins_call(contract: ToolContract, text: str) -> bool | None:
    """Whether a free text begins as a call does; None where it is too short to tell."""
    start = STARTS[contract.dialect]
    begun = text.lstrip()[: len(start)]
    if begun == start:
        return True
    return None if start.startswith(begun) else False


def _exact_parameters(text: str) -> list[tuple[str, str]]:
    found = []
    at = 0
    while text.startswith(xml.OPEN_PARAMETER, at):
        at += len(xml.OPEN_PARAMETER)
        name_end = text.find(xml.END_OF_NAME, at)
        start = name_end + len(xml.END_OF_NAME)
        end = text.find(xml.DELIMITER, start)
        if name_end < 0 or end < 0 or not text.startswith("\n", end + len(xml.DELIMITER)):
            _fail("a parameter does not end")
        found.append((text[at:name_end], text[start:end]))
        at = end + len(xml.DELIMITER) + 1
    if text[at:] != xml.CLOSING:
        _fail("the function does not end")
    return found


def _written(tool: Tool, parameters: list[tuple[str, str]]) -> Call:
    return Call(tool.name, object_of((key, published(tool, key, value)) for key, value in parameters))


def _arguments(tool: Tool, text: str) -> str:
    pairs = members(text)
    if pairs is None:
        _fail("the arguments are no object")
    # As written, unless a key is repeated.
    return text if len(dict(pairs)) == len(pairs) else object_of(pairs)


def _kind_object(contract: ToolContract, text: str) -> Call:
    whole = read(text)
    parts = dict(members(text) or ()) if whole and isinstance(whole[0], dict) else {}
    name = read(parts.get("name", ""))
    tool = contract.tool(name[0]) if name and isinstance(name[0], str) else None
    if tool is None:
        _fail("no declared tool is named")
    arguments = parts.get("arguments", "{}")
    inner = read(arguments)
    if inner and isinstance(inner[0], str):
        # Some models write the object as a string.
        arguments = inner[0].strip(WHITE_SPACE)
    if not read(arguments):
        _fail("the arguments are no JSON")
    return Call(tool.name, _arguments(tool, arguments))


def _kind_elements(contract: ToolContract, text: str) -> Call:
    head = FUNCTION.match(text)
    tool = None if head is None else contract.tool(head[1])
    if head is None or tool is None:
        _fail("no declared tool is named")
    at = head.end()
    parameters = []
    while parameter := PARAMETER.match(text, at):
        value, at = _kind_value(text, parameter.end())
        parameters.append((parameter[1], value))
    if not END.fullmatch(text, at):
        _fail("the function does not end")
    return _written(tool, parameters)


def _kind_value(text: str, start: int) -> tuple[str, int]:
    """A value and where it ends; without a line break before it, it ends at the closing tag wherever that stands."""
    if text.startswith(xml.DELIMITER, start):
        return "", start + len(xml.DELIMITER)
    framed = text.startswith("\n", start)
    end = text.find(xml.DELIMITER if framed else xml.CLOSE_PARAMETER, start + framed)
    if end < 0:
        _fail("a parameter does not end")
    value = text[start + 1 : end] if framed else text[start:end].removesuffix("\n")
    return value, end + len(xml.DELIMITER if framed else xml.CLOSE_PARAMETER)


def _fail(reason: str) -> NoReturn:
    raise ValueError(reason)
