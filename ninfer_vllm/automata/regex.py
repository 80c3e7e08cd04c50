"""Regular expressions in ECMAScript's syntax, read into a tree whose nodes know their offsets.

The expression is read as with the `u` flag: by whole characters, and a bracket or brace that stands for itself is
escaped. Anchors are kept a branch, so that full match and search read the same tree (RGX-7).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.escapes import LINE_END, read_escape
from ninfer_vllm.errors import InvalidRegex, LimitExceeded
from ninfer_vllm.limits import NESTING_DEPTH, REGEX_CHARS, REGULAR_STATES, REPEAT_BOUND

Value = TypeVar("Value")

QUANTIFIERS = "*+?{"
SHORT_BOUNDS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
BOUNDS = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
GROUP_NAME = re.compile(r"\?<([A-Za-z_$][A-Za-z0-9_$]*)>")
SURROGATE = re.compile("[\ud800-\udfff]")
BOUND_DIGITS = len(str(REPEAT_BOUND))

REFUSED_GROUPS = {
    "?=": "look-around is not supported: write the texts that may match",
    "?!": "look-around is not supported: write the texts that may match",
    "?<=": "look-around is not supported: write the texts that may match",
    "?<!": "look-around is not supported: write the texts that may match",
    "?<": "a group name is ASCII letters, digits, _ and $ between < and >",
    "?P": "a named group is written (?<name>…)",
    "?>": "an atomic group is not supported: write (?:…)",
    "?#": "a comment is not supported: leave it out",
}


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character out of a set, which may be empty."""

    chars: CharSet
    offset: int


@dataclass(frozen=True, slots=True)
class Concat:
    """All items in order; no item is the empty text."""

    items: tuple[Node, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Union:
    """One of two or more items."""

    items: tuple[Node, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Repeated:
    """`item` at least `minimum` and at most `maximum` times; None is without bound."""

    item: Node
    minimum: int
    maximum: int | None
    offset: int


Node = CharClass | Concat | Union | Repeated


@dataclass(frozen=True, slots=True)
class Branch:
    """One top-level alternative and whether `^` begins it and `$` ends it."""

    node: Node
    anchored_start: bool
    anchored_end: bool


@dataclass(frozen=True, slots=True)
class Regex:
    """A whole expression: its top-level branches, in order."""

    branches: tuple[Branch, ...]


def parse(text: str) -> Regex:
    """Read an expression.

    Units: offsets count characters from 0.
    Errors: InvalidRegex for what RGX-6 refuses; LimitExceeded for the length, the nesting of groups, and the number of
    character positions that remain when all counted repeats are written out.
    """
    if len(text) > REGEX_CHARS:
        raise LimitExceeded("regex_chars", REGEX_CHARS, len(text))
    surrogate = SURROGATE.search(text)
    if surrogate:
        raise InvalidRegex("an unpaired surrogate is no character", surrogate.start())
    regex = _Parser(text).parse()
    total = sum(fold(branch.node, _positions) for branch in regex.branches)
    _require_positions(total)
    return regex


def fold(node: Node, combine: Callable[[Node, tuple[Value, ...]], Value]) -> Value:
    """The value of a tree, each node's from the values of its children; iterative, so depth is no danger."""
    values: list[Value] = []
    todo: list[tuple[Node, bool]] = [(node, False)]
    while todo:
        current, expanded = todo.pop()
        below = children(current)
        if expanded or not below:
            first = len(values) - len(below)
            values[first:] = [combine(current, tuple(values[first:]))]
        else:
            todo.append((current, True))
            todo.extend((child, False) for child in reversed(below))
    return values[0]


def children(node: Node) -> tuple[Node, ...]:
    """The direct sub-expressions."""
    if isinstance(node, Repeated):
        return (node.item,)
    return () if isinstance(node, CharClass) else node.items


def _positions(node: Node, below: tuple[int, ...]) -> int:
    if isinstance(node, CharClass):
        return 1
    total = sum(below)
    if isinstance(node, Repeated):
        total *= max(node.minimum, 1) if node.maximum is None else node.maximum
    _require_positions(total)
    return total


def _require_positions(total: int) -> None:
    if total > REGULAR_STATES:
        raise LimitExceeded("regular_states", REGULAR_STATES, total)


@dataclass(slots=True)
class _Frame:
    """An open group, or the whole expression."""

    offset: int
    """Of its first character."""
    branch_offset: int
    items: list[Node] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    anchored_start: bool = False
    anchored_end: bool = False
    repeatable: bool = False
    """Whether the last item may take a quantifier."""

    def add(self, item: Node) -> None:
        self.items.append(item)
        self.repeatable = True

    def end_branch(self, next_offset: int) -> None:
        node = self.items[0] if len(self.items) == 1 else Concat(tuple(self.items), self.branch_offset)
        self.branches.append(Branch(node, self.anchored_start, self.anchored_end))
        self.items = []
        self.anchored_start = self.anchored_end = self.repeatable = False
        self.branch_offset = next_offset

    def node(self) -> Node:
        nodes = tuple(branch.node for branch in self.branches)
        return nodes[0] if len(nodes) == 1 else Union(nodes, self.offset)


class _Parser:
    """Reads from left to right with an explicit stack of open groups."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._frames = [_Frame(0, 0)]
        self._names: set[str] = set()

    def parse(self) -> Regex:
        while self._at < len(self._text):
            self._step(self._text[self._at])
        if len(self._frames) > 1:
            raise InvalidRegex("this group is not closed: add )", self._frames[-1].offset)
        self._frames[0].end_branch(self._at)
        return Regex(tuple(self._frames[0].branches))

    def _step(self, char: str) -> None:
        if char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "|":
            self._at += 1
            self._frames[-1].end_branch(self._at)
        elif char in "^$":
            self._anchor(char)
        elif char in QUANTIFIERS:
            self._quantify(char)
        else:
            self._atom(char)

    def _open(self) -> None:
        at = self._at
        if len(self._frames) > NESTING_DEPTH:
            raise LimitExceeded("nesting_depth", NESTING_DEPTH, len(self._frames), offset=at)
        self._at = self._group_body(at)
        self._frames.append(_Frame(at, self._at))

    def _group_body(self, at: int) -> int:
        """The offset where the content of the group opened at `at` begins."""
        head = self._text[at + 1 : at + 4]
        if not head.startswith("?"):
            return at + 1
        if head.startswith("?:"):
            return at + 3
        name = GROUP_NAME.match(self._text, at + 1)
        if name and name[1] in self._names:
            raise InvalidRegex(f"the group name {name[1]!r} is used twice: rename one", at)
        if name:
            self._names.add(name[1])
            return name.end()
        for size in (3, 2):
            if head[:size] in REFUSED_GROUPS:
                raise InvalidRegex(REFUSED_GROUPS[head[:size]], at)
        raise InvalidRegex("flags are not supported: write the characters that may match, and (?:…) for a group", at)

    def _close(self) -> None:
        if len(self._frames) == 1:
            raise InvalidRegex("this ) closes no group: write \\) for the character", self._at)
        frame = self._frames.pop()
        frame.end_branch(self._at)
        self._frames[-1].add(frame.node())
        self._at += 1

    def _anchor(self, char: str) -> None:
        frame = self._frames[-1]
        top = len(self._frames) == 1
        if char == "^" and top and not frame.items and not frame.anchored_start:
            frame.anchored_start = True
        elif char == "$" and top and self._text[self._at + 1 : self._at + 2] in ("", "|"):
            frame.anchored_end = True
        else:
            place = "start" if char == "^" else "end"
            raise InvalidRegex(
                f"the anchor {char} is supported only at the {place} of the expression or of a top-level branch: "
                f"move it there, or write \\{char} for the character",
                self._at,
            )
        self._at += 1

    def _quantify(self, char: str) -> None:
        frame, at = self._frames[-1], self._at
        minimum, maximum, end = self._bounds(char)
        if not frame.repeatable:
            again = "repeat a repeat by a group (?:…)" if frame.items else f"write \\{char} for the character"
            raise InvalidRegex(f"nothing to repeat before {char}: {again}", at)
        if self._text[end : end + 1] == "?":
            end += 1
        frame.items[-1] = Repeated(frame.items[-1], minimum, maximum, at)
        frame.repeatable = False
        self._at = end

    def _bounds(self, char: str) -> tuple[int, int | None, int]:
        at = self._at
        if char in SHORT_BOUNDS:
            return *SHORT_BOUNDS[char], at + 1
        found = BOUNDS.match(self._text, at)
        if not found:
            raise InvalidRegex("a repeat is written {m}, {m,} or {m,n}: write \\{ for the character", at)
        minimum = self._bound(found[1])
        maximum = minimum if not found[2] else self._bound(found[3]) if found[3] else None
        if maximum is not None and maximum < minimum:
            raise InvalidRegex(f"the repeat {found[0]} has its bounds reversed: write the smaller one first", at)
        return minimum, maximum, found.end()

    def _bound(self, digits: str) -> int:
        value = digits.lstrip("0")
        if len(value) > BOUND_DIGITS or int(value or "0") > REPEAT_BOUND:
            raise InvalidRegex(f"a repeat bound is at most {REPEAT_BOUND}", self._at)
        return int(value or "0")

    def _atom(self, char: str) -> None:
        at = self._at
        if char == "[":
            chars, self._at = read_class(self._text, at)
        elif char == "\\":
            chars, self._at = read_escape(self._text, at, in_class=False)
        elif char == ".":
            chars, self._at = ~LINE_END, at + 1
        elif char in "]}":
            raise InvalidRegex(f"this {char} closes nothing: write \\{char} for the character", at)
        else:
            chars, self._at = CharSet.from_chars(char), at + 1
        self._frames[-1].add(CharClass(chars, at))


def read_class(text: str, at: int) -> tuple[CharSet, int]:
    """The characters of the class that opens at `text[at]`, and the offset behind it."""
    opened = at
    negated = text.startswith("^", at + 1)
    at += 2 if negated else 1
    ranges: list[tuple[int, int]] = []
    while not text.startswith("]", at):
        low, low_at = _class_item(text, at, opened)
        at = low_at
        high = low
        if text.startswith("-", at) and not text.startswith("]", at + 1):
            first = at
            high, at = _class_item(text, at + 1, opened)
            _require_range(low, high, first)
            ranges.append((low.ranges[0][0], high.ranges[0][0]))
        else:
            ranges.extend(low.ranges)
    if not ranges and not negated:
        raise InvalidRegex("an empty class matches nothing: write the characters that may stand here", opened)
    chars = CharSet.from_ranges(ranges)
    return (~chars if negated else chars), at + 1


def _class_item(text: str, at: int, opened: int) -> tuple[CharSet, int]:
    if at >= len(text):
        raise InvalidRegex("this class is not closed: add ]", opened)
    if text[at] == "\\":
        return read_escape(text, at, in_class=True)
    return CharSet.from_chars(text[at]), at + 1


def _require_range(low: CharSet, high: CharSet, dash: int) -> None:
    if len(low) > 1 or len(high) > 1:
        raise InvalidRegex("a range runs between two characters: write \\- for the character", dash)
    if low.ranges > high.ranges:
        raise InvalidRegex("the range is empty, its end is before its start: swap them", dash)
