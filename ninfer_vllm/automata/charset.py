"""Sets of Unicode scalar values as sorted, disjoint, non-adjacent ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

MAX_SCALAR = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CharSet:
    """A set of Unicode scalar values (surrogates are never members); both ends of a range belong to it.

    Invariant: `ranges` is normalised, so equal sets are equal values. Build with `from_ranges` or `from_chars`.
    """

    ranges: tuple[Range, ...]

    @classmethod
    def from_ranges(cls, ranges: Iterable[Range]) -> CharSet:
        """The union of inclusive code point ranges, surrogates dropped."""
        return cls(tuple(_normalise(ranges)))

    @classmethod
    def from_chars(cls, chars: Iterable[str]) -> CharSet:
        """The set of the given characters."""
        return cls.from_ranges((ord(char), ord(char)) for char in chars)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, code: int) -> bool:
        at = bisect_right(self.ranges, (code, MAX_SCALAR + 1)) - 1
        return at >= 0 and self.ranges[at][0] <= code <= self.ranges[at][1]

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for low, high in self.ranges:
            yield from range(low, high + 1)

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet.from_ranges((*self.ranges, *other.ranges))

    def __and__(self, other: CharSet) -> CharSet:
        return CharSet(tuple(_intersect(self.ranges, other.ranges)))

    def __sub__(self, other: CharSet) -> CharSet:
        return CharSet(tuple(_subtract(self.ranges, other.ranges)))

    def __invert__(self) -> CharSet:
        return ANY - self


EMPTY = CharSet(())
ANY = CharSet(((0, SURROGATES[0] - 1), (SURROGATES[1] + 1, MAX_SCALAR)))


def partition(sets: Iterable[CharSet]) -> list[CharSet]:
    """The coarsest partition of the union of `sets` whose blocks lie inside or outside each of them.

    Blocks are contiguous ranges joined where the same sets contain them; the result is sorted by first member.
    """
    return [block for block, _ in blocks(list(dict.fromkeys(sets)))]


def blocks(sets: Sequence[CharSet]) -> list[tuple[CharSet, tuple[int, ...]]]:
    """The blocks of `partition`, each with the indices of the sets that contain it."""
    events: list[tuple[int, int, int]] = []
    for number, chars in enumerate(sets):
        for low, high in chars.ranges:
            events.append((low, 0, number))
            events.append((high + 1, 1, number))
    events.sort()
    found: dict[tuple[int, ...], list[Range]] = {}
    inside: set[int] = set()
    previous = 0
    for at, closes, number in events:
        if inside and at > previous:
            found.setdefault(tuple(sorted(inside)), []).append((previous, at - 1))
        previous = at
        (inside.discard if closes else inside.add)(number)
    cut = [(CharSet.from_ranges(ranges), members) for members, ranges in found.items()]
    return sorted(cut, key=lambda block: block[0].ranges)


def _normalise(ranges: Iterable[Range]) -> Iterator[Range]:
    current: Range | None = None
    for low, high in sorted(_without_surrogates(ranges)):
        if current is None:
            current = (low, high)
        elif low <= current[1] + 1:
            current = (current[0], max(current[1], high))
        else:
            yield current
            current = (low, high)
    if current is not None:
        yield current


def _without_surrogates(ranges: Iterable[Range]) -> Iterator[Range]:
    first, last = SURROGATES
    for low, high in ranges:
        low, high = max(low, 0), min(high, MAX_SCALAR)
        if high < first or low > last:
            if low <= high:
                yield low, high
            continue
        if low < first:
            yield low, first - 1
        if high > last:
            yield last + 1, high


def _subtract(left: tuple[Range, ...], right: tuple[Range, ...]) -> Iterator[Range]:
    at = 0
    for low, high in left:
        while at < len(right) and right[at][1] < low:
            at += 1
        following = at
        while following < len(right) and right[following][0] <= high:
            first, last = right[following]
            if low < first:
                yield low, first - 1
            low = last + 1
            following += 1
        if low <= high:
            yield low, high


def _intersect(left: tuple[Range, ...], right: tuple[Range, ...]) -> Iterator[Range]:
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            yield low, high
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
