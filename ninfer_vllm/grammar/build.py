"""Expressions built in short form: literals joined, single characters made one set, repeats of repeats made one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.grammar.ir import (
    EMPTY_TEXT,
    NOTHING,
    Alternation,
    Chars,
    Expr,
    Literal,
    Repeat,
    alternation,
    sequence,
    text,
)


def one_of(chars: CharSet) -> Expr:
    """One character of a set; of a set of one, its literal."""
    if not chars:
        return NOTHING
    return text(chr(chars.ranges[0][0])) if len(chars) == 1 else Chars(chars)


def concat(items: Iterable[Expr]) -> Expr:
    """The items in order, neighbouring literals joined."""
    joined: list[Expr] = []
    for literal, run in groupby(items, key=lambda item: isinstance(item, Literal)):
        if literal:
            joined.append(Literal(b"".join(item.data for item in run if isinstance(item, Literal))))
        else:
            joined.extend(run)
    return sequence(*joined)


def union(items: Iterable[Expr]) -> Expr:
    """One of the items, all single characters joined to one set."""
    ranges: list[tuple[int, int]] = []
    others: list[Expr] = []
    for item in _flat(items):
        single = _single(item)
        if single is None:
            others.append(item)
        else:
            ranges.extend(single.ranges)
    return alternation(one_of(CharSet.from_ranges(ranges)), *others)


def repeat(item: Expr, minimum: int, maximum: int | None) -> Expr:
    """`item` at least `minimum` and at most `maximum` times; None is without bound."""
    if maximum == 0 or item == EMPTY_TEXT or (item == NOTHING and minimum == 0):
        return EMPTY_TEXT
    if item == NOTHING or (minimum, maximum) == (1, 1):
        return item
    if isinstance(item, Repeat) and item.minimum <= 1 and item.maximum in (1, None):
        # (a?){2,3}  ->  a{0,3}        (a+){2,3}  ->  a{2,}        (a*)+  ->  a*
        unbounded = maximum is None or item.maximum is None
        return Repeat(item.item, item.minimum * minimum, None if unbounded else maximum)
    return Repeat(item, minimum, maximum)


def _flat(items: Iterable[Expr]) -> Iterable[Expr]:
    for item in items:
        yield from item.items if isinstance(item, Alternation) else (item,)


def _single(item: Expr) -> CharSet | None:
    """The set an expression takes exactly one character out of, where it is so simple."""
    if isinstance(item, Chars):
        return item.chars
    if isinstance(item, Literal) and item.data and len(item.data.decode()) == 1:
        return CharSet.from_chars(item.data.decode())
    return None
