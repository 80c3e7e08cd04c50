"""What happens behind a position: interned sets of frames, a graph-structured stack without duplicates.

Theory of operation. A stack is a set of frames, each a position to return to with the stack below it: stacks that an
ambiguous grammar reaches by different ways are one set, so ambiguity merges instead of multiplying. A frame of a
counted repetition holds what is left of it as an interval, since a set of counts moves as one.

A repetition without upper bound has the width `UNBOUNDED` and counts the copies that must still come, from the present
one on. One with an upper bound counts the copies that may still come, the present one included; it may end as soon as
no more than `width` may still come behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

UNBOUNDED = -1
"""Width of a repetition without upper bound."""

ANY_TIME = 1 << 60
"""Width of a bounded repetition that may end behind every copy."""

PLAIN = -2
"""Width of a frame that is no repetition's; its counts are 0."""

INSIDE = -3
"""Width of a repetition that no single token can bring to its end; its counts are 0."""

Frame = tuple[int, int, int, int, int]
"""Position to return to, width, least and greatest count, stack below."""


class Stacks:
    """Interned stacks; a stack is its number. Counts above `far` are alike to any single token."""

    def __init__(self, far: int) -> None:
        self._far = far
        self._numbers: dict[tuple[Frame, ...], int] = {}
        self.frames: list[tuple[Frame, ...]] = []
        self.counts: list[bool] = []
        """Whether something is counted in a stack or below."""
        self._near: dict[int, dict[int, int]] = {far: {}}
        self._least: dict[int, int] = {}
        self._unions: dict[tuple[int, ...], int] = {}

    def intern(self, frames: Iterable[Frame]) -> int:
        """The stack with these frames."""
        found = tuple(frames)
        if len(found) > 1:
            found = _normalised(found)
        number = self._numbers.get(found)
        if number is None:
            number = self._numbers[found] = len(self.frames)
            self.frames.append(found)
            below = [frame[4] for frame in found if frame[4] >= 0]
            self.counts.append(any(frame[1] != PLAIN for frame in found) or any(self.counts[at] for at in below))
        return number

    def union(self, stacks: Iterable[int]) -> int:
        """The stack with the frames of all of these."""
        key = tuple(sorted(stacks))
        number = self._unions.get(key)
        if number is None:
            frames = (frame for stack in key for frame in self.frames[stack])
            number = self._unions[key] = self.intern(frames)
        return number

    def least_count(self, stack: int) -> int:
        """The least count that matters in the stack and below; `ANY_TIME` where nothing is counted."""
        if stack < 0 or not self.counts[stack]:
            return ANY_TIME
        found = self._least.get(stack)
        if found is None:
            counts = {ANY_TIME}
            seen = {stack}
            todo = [stack]
            while todo:
                for _, width, low, _, below in self.frames[todo.pop()]:
                    if width != PLAIN and low > 0:
                        counts.add(low)
                    if below >= 0 and self.counts[below] and below not in seen:
                        seen.add(below)
                        todo.append(below)
            found = self._least[stack] = min(counts)
        return found

    def near(self, stack: int, far: int | None = None) -> int:
        """The stack with all counts brought down to where a token of `far` bytes could tell them from others."""
        if stack < 0 or not self.counts[stack]:
            return stack
        bytes_seen = self._far if far is None else far
        known = self._near.setdefault(bytes_seen, {})
        found = known.get(stack)
        if found is None:
            todo = [stack]
            while todo:
                at = todo[-1]
                below = [frame[4] for frame in self.frames[at]]
                missing = [other for other in below if other >= 0 and self.counts[other] and other not in known]
                if missing:
                    todo.extend(missing)
                else:
                    known[todo.pop()] = self.intern(self._near_frames(at, bytes_seen))
            found = known[stack]
        return found

    def _near_frames(self, stack: int, far: int) -> Iterator[Frame]:
        known = self._near[far]
        for position, width, low, high, below in self.frames[stack]:
            lower = known.get(below, below)
            counts = (PLAIN, 0, 0) if width == PLAIN else nearer(width, low, high, far)
            yield (position, *counts, lower)


class Closed:
    """Terminals with the stacks they were reached with: mostly one, which is kept without a set."""

    def __init__(self) -> None:
        self._one: dict[int, int] = {}
        self._more: dict[int, set[int]] = {}

    def add(self, position: int, stack: int) -> None:
        """Note a terminal with a stack."""
        known = self._one.setdefault(position, stack)
        if known != stack:
            self._more.setdefault(position, {known}).add(stack)

    def united(self, stacks: Stacks) -> dict[int, int]:
        """Each terminal with one stack."""
        for position, several in self._more.items():
            self._one[position] = stacks.union(several)
        return self._one


def counted(width: int, low: int, high: int) -> tuple[int, int, int]:
    """Width and counts in their one form."""
    return (ANY_TIME if width >= high else width, low, high)


def after_copy(width: int, low: int, high: int) -> tuple[bool, tuple[int, int, int] | None]:
    """Behind one more copy: whether the repetition may end, and the counts of a further copy, where one may come."""
    if width == INSIDE:
        return False, (INSIDE, 0, 0)
    if width == UNBOUNDED:
        return low <= 1, (UNBOUNDED, max(low - 1, 0), max(high - 1, 0))
    ends = low - 1 <= width
    return ends, counted(width, max(low - 1, 1), high - 1) if high > 1 else None


def nearer(width: int, low: int, high: int, far: int) -> tuple[int, int, int]:
    """Counts that no token of `far` bytes or less can tell from these."""
    if width == INSIDE:
        return width, low, high
    if width != UNBOUNDED:
        if low <= far:
            return width, low, high
        low, high = max(low - width, 0), max(high - width, 0)
    # A copy reads a byte at least: more copies than bytes cannot come to an end.
    return (INSIDE, 0, 0) if low > far else (UNBOUNDED, low, min(high, far + 1))


def _normalised(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Sorted, without duplicates, neighbouring counts of one repetition joined."""
    ordered = sorted(set(frames), key=lambda frame: (frame[0], frame[1], frame[4], frame[2], frame[3]))
    joined: list[Frame] = []
    for frame in ordered:
        if joined and frame[1] != PLAIN and _touches(joined[-1], frame):
            position, width, low, high, below = joined[-1]
            joined[-1] = (position, width, low, max(high, frame[3]), below)
        else:
            joined.append(frame)
    return tuple(joined)


def _touches(left: Frame, right: Frame) -> bool:
    return left[0] == right[0] and left[1] == right[1] and left[4] == right[4] and right[2] <= left[3] + 1
