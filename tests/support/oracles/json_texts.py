"""The canonical spellings of a JSON value: every order of members, plain numbers (JSO-3, JSO-4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, permutations, product
from typing import Any

MAX_ORDERS = 250
"""Orders of members that are tried for one value: six members of one object have 720."""

INT64 = range(-(2**63), 2**63)


def spellings(value: Any, schema: Any = None, limit: int = MAX_ORDERS) -> Iterator[str]:
    """Texts of the value: first in the order in which the schema mentions names, then in other orders."""
    yield from dict.fromkeys(islice(_texts(arranged(value, schema)), limit))


def arranged(value: Any, schema: Any) -> Any:
    """The value with the members of each object as the `properties` that knows most of their names orders them.

    Names that it does not know follow, as `required` and then other `properties` of the schema order them.
    """
    declared = [list(names) for names in _declared(schema)]
    rest = [name for names in (*_required(schema), *declared) for name in names]
    return _sorted(value, declared, list(dict.fromkeys(rest)))


def find_spelling(value: Any, is_prefix: Callable[[str], bool]) -> str | None:
    """A text of the value, with its members in some order, that is a prefix of a language; None where no order is."""
    return next(_grown(value, "", is_prefix), None)


def is_publishable(value: Any) -> bool:
    """Whether every number in the value is inside the number range of JSO-5 and every string is Unicode text."""
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int):
        return value in INT64
    if isinstance(value, float):
        return not value.is_integer() or int(value) in INT64
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, list):
        return all(map(is_publishable, value))
    return all(is_publishable(name) and is_publishable(member) for name, member in value.items())


def _sorted(value: Any, declared: list[list[str]], rest: list[str]) -> Any:
    if isinstance(value, dict):
        best = max(declared, key=lambda names: len(value.keys() & set(names)), default=[])
        ranks = {name: rank for rank, name in enumerate(dict.fromkeys((*best, *rest, *value)))}
        return {name: _sorted(value[name], declared, rest) for name in sorted(value, key=ranks.__getitem__)}
    return [_sorted(item, declared, rest) for item in value] if isinstance(value, list) else value


def _declared(schema: Any) -> Iterator[dict[str, Any]]:
    """Everything under `properties`, in reading order."""
    for keyword, below in _members(schema):
        if keyword == "properties" and isinstance(below, dict):
            yield below
        yield from _declared(below)


def _required(schema: Any) -> Iterator[list[str]]:
    for keyword, below in _members(schema):
        if keyword == "required" and isinstance(below, list):
            yield [name for name in below if isinstance(name, str)]
        yield from _required(below)


def _members(schema: Any) -> Iterable[tuple[object, Any]]:
    return schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()


def _grown(value: Any, before: str, is_prefix: Callable[[str], bool]) -> Iterator[str]:
    """Texts that begin with `before` and go on with the value, all of them prefixes."""
    if isinstance(value, dict):
        yield from _grown_members(value, before + "{", is_prefix)
    elif isinstance(value, list):
        yield from _grown_items(value, before + "[", is_prefix)
    elif is_prefix(before + _scalar(value)):
        yield before + _scalar(value)


def _grown_members(value: dict[str, Any], before: str, is_prefix: Callable[[str], bool]) -> Iterator[str]:
    if not value and is_prefix(before + "}"):
        yield before + "}"
    for name, member in value.items():
        begun = f"{before}{_scalar(name)}:"
        if is_prefix(begun):
            rest = {other: below for other, below in value.items() if other != name}
            for text in _grown(member, begun, is_prefix):
                yield from _grown_members(rest, text + ("," if rest else ""), is_prefix)


def _grown_items(value: list[Any], before: str, is_prefix: Callable[[str], bool]) -> Iterator[str]:
    if not value and is_prefix(before + "]"):
        yield before + "]"
    for text in _grown(value[0], before, is_prefix) if value else ():
        yield from _grown_items(value[1:], text + ("," if value[1:] else ""), is_prefix)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for names in permutations(value):
            for members in product(*(list(islice(_texts(value[name]), MAX_ORDERS)) for name in names)):
                yield "{" + ",".join(f"{_scalar(name)}:{text}" for name, text in zip(names, members, strict=True)) + "}"
    elif isinstance(value, list):
        for items in product(*(list(islice(_texts(item), MAX_ORDERS)) for item in value)):
            yield f"[{','.join(items)}]"
    else:
        yield _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and int(value) in INT64:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)
