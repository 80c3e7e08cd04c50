"""JSON texts kept as they were written: whether they are JSON, and the members of an object with their own spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from ninfer_vllm.languages.json_schema.literals import spell

WHITE_SPACE = " \t\n\r"
PART = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+|\s+', re.DOTALL)
"""A string, a structural character, another scalar, or white space."""


def read(text: str) -> tuple[Any, ...]:
    """The value of a JSON text in a tuple, numbers as `0`; the empty tuple where it is none."""
    # Numbers are not converted: their digits may be beyond every numeric type.
    try:
        return (json.loads(text, parse_int=_zero, parse_float=_zero, parse_constant=_refuse),)
    except (ValueError, RecursionError):
        return ()


def may_be_json(text: str) -> bool:
    """Whether a text is JSON, as far as can be told: one that is nested too deeply to be read is taken for it."""
    try:
        json.loads(text, parse_int=_zero, parse_float=_zero, parse_constant=_refuse)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def members(text: str) -> list[tuple[str, str]] | None:
    """The keys of an object and the texts of their values, in order; None where the text is no object.

    Iterative, so depth is no danger; the texts of values are not looked into.
    """
    body = text.strip(WHITE_SPACE)
    if len(body) < 2 or body[0] != "{" or body[-1] != "}":
        return None
    found: list[tuple[str, str]] = []
    for part in _split(body[1:-1], ","):
        if not part.strip(WHITE_SPACE) and not found:
            return [] if not body[1:-1].strip(WHITE_SPACE) else None
        pair = _split(part, ":")
        key = read(pair[0])
        if len(pair) != 2 or not key or not isinstance(key[0], str):
            return None
        found.append((key[0], pair[1].strip(WHITE_SPACE)))
    return found


def object_of(pairs: Iterable[tuple[str, str]]) -> str:
    """The object of keys and the texts of their values: of a repeated key the last value, at the place of the first."""
    return "{" + ", ".join(f"{spell(key)}: {value}" for key, value in dict(pairs).items()) + "}"


def _split(text: str, separator: str) -> list[str]:
    """The text cut at a structural character that stands in no string, array or object."""
    cuts, depth, start = [], 0, 0
    for match in PART.finditer(text):
        part = match.group()
        if part in "[{":
            depth += 1
        elif part in "]}":
            depth -= 1
        elif part == separator and depth == 0:
            cuts.append(text[start : match.start()])
            start = match.end()
    return [*cuts, text[start:]]


def _zero(_: str) -> int:
    return 0


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
