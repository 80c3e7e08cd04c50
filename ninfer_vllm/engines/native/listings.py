"""Ways to go on that begin with fixed text, as a sorted list that is searched byte by byte."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ninfer_vllm.engines.native.kinds import Segment
from ninfer_vllm.grammar.ir import Alternation, Expr, Literal, Repeat, Rule, Sequence, walk

LISTED = 4
"""Ways that begin with fixed text, from which on they are searched as a sorted list."""

MOST_PREPARED = 100_000
"""Texts in listings from which on no more are made before they are asked for: about a second of work."""

Item = tuple[Sequence, int]
"""A sequence from one of its items on."""

Way = tuple[Expr, int, Item | None]
"""An expression, for a sequence from one of its items on, and what follows it within the one that is listed."""

Place = tuple[int, int, int, int, int]
"""A listing's number, the texts from one to another that are still possible, the bytes read, and what is behind."""


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """Texts in order; for each what follows it, what follows that, and its number among all that were met."""

    texts: list[bytes]
    rests: list[Item | None]
    thens: list[Item | None]
    numbers: list[int]


class Listings:
    """The listings of one grammar, each made when first asked for."""

    def __init__(self, rules: Mapping[str, Expr]) -> None:
        self._rules = rules
        self._known: dict[tuple[int, int], tuple[Listing | None, list[Way]]] = {}
        self._parts: dict[tuple[int, int], tuple[Listing, list[Way], int, int]] = {}
        """Places from which on a known listing has all their texts and other ways: those behind some numbers."""
        self.numbered: list[Listing] = []
        """The listings that positions stand in."""
        self._numbers: dict[int, int] = {}
        self.num_texts = 0
        """Texts of all listings."""

    def number(self, listing: Listing) -> int:
        """The number of a listing."""
        found = self._numbers.get(id(listing))
        if found is None:
            found = self._numbers[id(listing)] = len(self.numbered)
            self.numbered.append(listing)
        return found

    def prepare(self, bodies: Iterable[Expr]) -> None:
        """Make the listings that many small ones are parts of, those of the last rules first: they hold the others."""
        for body in reversed(list(bodies)):
            if self.num_texts > MOST_PREPARED:
                return
            for expr in walk(body):
                if isinstance(expr, Alternation) and len(expr.items) >= LISTED:
                    self.of(expr, 0)
                elif isinstance(expr, Sequence):
                    for index in range(len(expr.items)):
                        if is_optional(expr.items[index]) and (id(expr), index) not in self._parts:
                            self.of(expr, index)

    def of(self, expr: Expr, index: int) -> tuple[Listing | None, list[Way]]:
        """The ways to go on at an expression that begin with fixed text, where they are many, and all others.

        Without a listing there are no others: the expression is better taken as it is.
        """
        place = (id(expr), index)
        found = self._known.get(place)
        if found is None:
            found = self._part(*self._parts[place]) if place in self._parts else self._listed(expr, index)
            self._known[place] = found
            self.num_texts += 0 if found[0] is None else len(found[0].texts)
        return found

    def _part(
        self, listing: Listing, others: list[Way], first: int, first_other: int
    ) -> tuple[Listing | None, list[Way]]:
        kept = [at for at, number in enumerate(listing.numbers) if number >= first]
        if len(kept) < LISTED:
            return None, []
        lists = (listing.texts, listing.rests, listing.thens, listing.numbers)
        return Listing(*([values[at] for at in kept] for values in lists)), others[first_other:]  # type: ignore[arg-type]

    def _listed(self, expr: Expr, index: int) -> tuple[Listing | None, list[Way]]:
        led: list[tuple[bytes, int, Item | None, Item | None]] = []
        others: list[Way] = []
        cuts: dict[tuple[int, int], tuple[int, int]] = {}
        seen: set[tuple[int, int, int, int]] = set()
        todo: list[Way] = [(expr, index, None)]
        while todo:
            way = todo.pop()
            at, index, then = way
            key = (id(at), index, 0 if then is None else id(then[0]), 0 if then is None else then[1])
            if key in seen:
                # What was met before a place is missing from what was met since.
                cuts.clear()
                continue
            seen.add(key)
            if not todo and then is None:
                # Everything that is still to come is what this place leads to.
                cuts[id(at), index] = len(led), len(others)
            first, rest = _first(at, index)
            if isinstance(first, Literal) and first.data:
                led.append((first.data, len(led), rest, then))
            elif (below := _below(way, self._rules)) is None:
                others.append(way)
            else:
                todo.extend(below)
        if len(led) < LISTED:
            return None, []
        led.sort(key=lambda found: found[:2])
        columns = tuple(map(list, zip(*led, strict=True)))
        listing = Listing(columns[0], columns[2], columns[3], columns[1])
        for place, (first_text, first_other) in cuts.items():
            self._parts.setdefault(place, (listing, others, first_text, first_other))
        return listing, others


def is_optional(expr: Expr) -> bool:
    """Whether an expression is one that may be left out, and written so."""
    return isinstance(expr, Repeat) and (expr.minimum, expr.maximum) == (0, 1)


def _first(expr: Expr, index: int) -> tuple[Expr, Item | None]:
    """What a way begins with, and the rest of its sequence, where there is any."""
    if not isinstance(expr, Sequence) or index == len(expr.items):
        return expr, None
    return expr.items[index], (expr, index + 1) if index + 1 < len(expr.items) else None


def _below(way: Way, rules: Mapping[str, Expr]) -> list[Way] | None:
    """The ways that one consists of; None where it is taken as it is."""
    expr, index, then = way
    if isinstance(expr, Rule):
        body = rules[expr.name]
        return [(body, 0, then)] if _may_lead(body) else None
    if isinstance(expr, Alternation):
        # The last one is looked at last: counted members go on in it.
        return [(item, 0, then) for item in reversed(expr.items)]
    if isinstance(expr, Repeat) and is_optional(expr) and then is not None:
        return [(*then, None), (expr.item, 0, then)]
    if isinstance(expr, Sequence) and index < len(expr.items):
        first = expr.items[index]
        if index + 1 == len(expr.items):
            return [(first, 0, then)]
        if isinstance(first, Repeat) and is_optional(first) and then is None:
            return [(expr, index + 1, None), (first.item, 0, (expr, index + 1))]
    return None


def _may_lead(body: Expr) -> bool:
    """Whether a rule's body is looked into."""
    first = body.items[0] if isinstance(body, Sequence) and body.items else body
    if isinstance(first, Repeat):
        return is_optional(first)
    return isinstance(first, Literal) or isinstance(body, Alternation | Rule)


def listing_classes(
    texts: list[bytes], number: int, low: int, high: int, depth: int, after: int
) -> tuple[tuple[Segment, ...], tuple[Place, ...]]:
    """What may be read at a place of a listing with these texts, and the place behind each class."""
    segments: list[Segment] = []
    targets: list[Place] = []
    while low < high:
        byte = texts[low][depth]
        upper = texts[low][:depth] + bytes((byte + 1,)) if byte < 0xFF else None
        end = high if upper is None else bisect_left(texts, upper, low, high)
        segments.append((byte, byte, len(targets) + 1))
        targets.append((number, low, end, depth + 1, after))
        low = end
    return tuple(segments), tuple(targets)
