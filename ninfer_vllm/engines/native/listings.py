"""Alternatives that begin with fixed text, as a sorted list that is searched byte by byte."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from ninfer_vllm.engines.native.kinds import Segment
from ninfer_vllm.grammar.ir import Alternation, Expr, Literal, Rule, Sequence

LISTED = 8
"""Alternatives that begin with fixed text, from which on they are searched as a sorted list."""

MAX_ALIASES = 16
"""Rules that are nothing but another rule's name, followed in a row."""

Place = tuple["Listing", int, int, int, int]
"""A listing, the texts from one to another that are still possible, the bytes read, and the position behind."""


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Texts in order, and the sequence whose first item each of them is, if it is one's."""

    texts: list[bytes]
    rests: list[Sequence | None]


def listed(expr: Alternation, rules: Mapping[str, Expr]) -> tuple[Listing | None, tuple[Expr, ...]]:
    """The alternatives that begin with fixed text, where they are many, and all others."""
    if len(expr.items) < LISTED:
        return None, expr.items
    led = [_led(item, rules) for item in expr.items]
    order = sorted((found[0], at) for at, found in enumerate(led) if found is not None)
    if len(order) < LISTED:
        return None, expr.items
    rests = [found[1] for _, at in order if (found := led[at]) is not None]
    others = tuple(item for item, found in zip(expr.items, led, strict=True) if found is None)
    return Listing([text for text, _ in order], rests), others


def listing_classes(
    listing: Listing, low: int, high: int, depth: int, after: int
) -> tuple[tuple[Segment, ...], list[Place]]:
    """What may be read at a place of a listing, and the place behind each class."""
    segments: list[Segment] = []
    targets: list[Place] = []
    texts = listing.texts
    while low < high:
        byte = texts[low][depth]
        upper = texts[low][:depth] + bytes((byte + 1,)) if byte < 0xFF else None
        end = high if upper is None else bisect_left(texts, upper, low, high)
        segments.append((byte, byte, len(targets) + 1))
        targets.append((listing, low, end, depth + 1, after))
        low = end
    return tuple(segments), targets


def _led(item: Expr, rules: Mapping[str, Expr]) -> tuple[bytes, Sequence | None] | None:
    """The fixed text an alternative begins with, and the sequence whose first item it is."""
    for _ in range(MAX_ALIASES):
        if not isinstance(item, Rule):
            break
        item = rules[item.name]
    if isinstance(item, Literal) and item.data:
        return item.data, None
    if isinstance(item, Sequence) and item.items and isinstance(item.items[0], Literal) and item.items[0].data:
        return item.items[0].data, item
    return None
