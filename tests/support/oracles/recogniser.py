"""Membership in a grammar of the IR, decided by a plain chart parser: the authority for every lowering's tests.

Theory of operation: every expression is a symbol of its own. An item says "expression `node`, begun at byte `start`,
has made `progress`"; for each byte offset all items that can stand there are found. An item waits for a child at its
offset; when the child completes, its waiters advance. Left recursion, ambiguity and empty rules need no special case.
A repetition of something that can be empty is read as `(item without the empty text){0,max}`, the same language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ninfer_vllm.grammar.ir import (
    Alternation,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Literal,
    Regular,
    Repeat,
    Rule,
    Sequence,
    Token,
    children,
)

TAIL_BITS = 6


def accepts(grammar: Grammar, text: str | bytes) -> bool:
    """Whether the whole text is in the language; token terminals match no text."""
    return Recogniser(grammar).accepts(text)


def is_prefix(grammar: Grammar, text: str | bytes) -> bool:
    """Whether some text (or tokens) can follow so that the whole is in the language."""
    return Recogniser(grammar).is_prefix(text)


class Recogniser:
    """A grammar made ready for many questions."""

    def __init__(self, grammar: Grammar) -> None:
        self.nodes: list[Expr] = []
        self.below: list[tuple[int, ...]] = []
        self._numbers: dict[object, int] = {}
        self._rules = {name: self._number(Rule(name), ()) for name in grammar.rules}
        for name, body in grammar.rules.items():
            self.below[self._rules[name]] = (self._add(body),)
        self.nodes = [Regular(node.automaton.trimmed()) if isinstance(node, Regular) else node for node in self.nodes]
        self.root = self._rules[grammar.root]
        self.nullable = self._least(self._is_nullable)
        self.productive = self._least(self._is_productive)

    def accepts(self, text: str | bytes) -> bool:
        """Whether the whole text is in the language; token terminals match no text."""
        return self._read(text).complete

    def is_prefix(self, text: str | bytes) -> bool:
        """Whether some text (or tokens) can follow so that the whole is in the language."""
        chart = self._read(text)
        return chart.complete or chart.alive

    def _read(self, text: str | bytes) -> _Chart:
        chart = _Chart(self, text.encode() if isinstance(text, str) else text)
        chart.run()
        return chart

    def _number(self, node: Expr, below: tuple[int, ...]) -> int:
        leaf = isinstance(node, Rule) or not children(node)
        bounds = (node.minimum, node.maximum) if isinstance(node, Repeat) else ()
        key = node if leaf else (type(node), below, bounds)
        if key not in self._numbers:
            self._numbers[key] = len(self.nodes)
            self.nodes.append(node)
            self.below.append(below)
        return self._numbers[key]

    def _add(self, expr: Expr) -> int:
        """Number an expression and all below it, children first."""
        done: list[int] = []
        todo: list[tuple[Expr, bool]] = [(expr, False)]
        while todo:
            node, ready = todo.pop()
            below = children(node)
            if ready or not below:
                first = len(done) - len(below)
                done[first:] = [self._number(node, tuple(done[first:]))]
            else:
                todo.append((node, True))
                todo.extend((child, False) for child in reversed(below))
        return done[0]

    def _least(self, holds: Callable[[int, list[bool]], bool]) -> list[bool]:
        """The least solution of a property that `holds(node, known)` derives from the children."""
        parents: list[list[int]] = [[] for _ in self.nodes]
        for number, below in enumerate(self.below):
            for child in below:
                parents[child].append(number)
        known = [False] * len(self.nodes)
        todo = list(range(len(self.nodes)))
        while todo:
            number = todo.pop()
            if not known[number] and holds(number, known):
                known[number] = True
                todo.extend(parents[number])
        return known

    def _is_nullable(self, number: int, known: list[bool]) -> bool:
        node, below = self.nodes[number], self.below[number]
        if isinstance(node, Literal):
            return not node.data
        if isinstance(node, Regular):
            return 0 in node.automaton.accepting
        if isinstance(node, Repeat):
            return node.minimum == 0 or known[below[0]]
        if isinstance(node, Alternation):
            return any(known[child] for child in below)
        return isinstance(node, Sequence | Rule) and all(known[child] for child in below)

    def _is_productive(self, number: int, known: list[bool]) -> bool:
        node, below = self.nodes[number], self.below[number]
        if isinstance(node, Bytes):
            return bool(node.values)
        if isinstance(node, Chars):
            return bool(node.chars)
        if isinstance(node, Regular):
            return not node.automaton.is_empty
        if isinstance(node, Token):
            return bool(node.ids)
        if isinstance(node, Repeat):
            return node.minimum == 0 or known[below[0]]
        if isinstance(node, Alternation):
            return any(known[child] for child in below)
        return all(known[child] for child in below)


Item = tuple[int, int, int]
"""Node, progress, start."""


@dataclass
class _Chart:
    grammar: Recogniser
    data: bytes
    complete: bool = False
    alive: bool = False
    pending: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """End offset -> (terminal, start) that complete there."""
    waiters: dict[tuple[int, int], list[Item]] = field(default_factory=dict)
    """(node, offset) -> items that wait there for the node."""

    def run(self) -> None:
        """Fill the chart from left to right."""
        for at in range(len(self.data) + 1):
            position = _Position(self, at)
            if at == 0:
                position.predict(self.grammar.root)
            for node, start in self.pending.pop(at, ()):
                position.finish(node, start)
            position.drain()
        self.complete = (self.grammar.root, 0) in position.finished


class _Position:
    """All items of one byte offset."""

    def __init__(self, chart: _Chart, at: int) -> None:
        self.chart = chart
        self.grammar = chart.grammar
        self.at = at
        self.items: set[Item] = set()
        self.agenda: list[Item] = []
        self.finished: set[tuple[int, int]] = set()

    def predict(self, node: int) -> None:
        """Begin a node here, unless it derives nothing at all."""
        if self.grammar.productive[node]:
            self._push((node, 0, self.at))

    def finish(self, node: int, start: int) -> None:
        """A node that began at `start` ends here: whoever waits for it advances."""
        if (node, start) not in self.finished:
            self.finished.add((node, start))
            for waiter in self.chart.waiters.get((node, start), ()):
                self._advance(waiter, start)

    def drain(self) -> None:
        """Process items until nothing new appears."""
        while self.agenda:
            self._process(self.agenda.pop())

    def _push(self, item: Item) -> None:
        if item not in self.items:
            self.items.add(item)
            self.agenda.append(item)

    def _process(self, item: Item) -> None:
        number, progress, start = item
        node, below = self.grammar.nodes[number], self.grammar.below[number]
        if isinstance(node, Repeat):
            if progress >= node.minimum or self.grammar.nullable[below[0]]:
                self.finish(number, start)
            if node.maximum is None or progress < node.maximum:
                self._wait(item, below[0])
        elif isinstance(node, Sequence | Rule):
            if progress == len(below):
                self.finish(number, start)
            else:
                self._wait(item, below[progress])
        elif isinstance(node, Alternation):
            for child in below:
                self._wait(item, child)
        else:
            self._scan(number, node)

    def _wait(self, item: Item, child: int) -> None:
        self.chart.waiters.setdefault((child, self.at), []).append(item)
        self.predict(child)
        if (child, self.at) in self.finished:
            self._advance(item, self.at)

    def _advance(self, waiter: Item, child_start: int) -> None:
        number, progress, start = waiter
        node = self.grammar.nodes[number]
        if isinstance(node, Alternation):
            self.finish(number, start)
        elif isinstance(node, Repeat):
            if child_start < self.at:
                bounded = progress + 1 if node.maximum is not None else min(progress + 1, node.minimum)
                self._push((number, bounded, start))
        else:
            self._push((number, progress + 1, start))

    def _scan(self, number: int, node: Expr) -> None:
        for end in _ends(node, self.chart.data, self.at):
            if end is None:
                self.chart.alive = True
            elif end == self.at:
                self.finish(number, self.at)
            else:
                self.chart.pending.setdefault(end, []).append((number, self.at))


def _ends(node: Expr, data: bytes, at: int) -> Iterator[int | None]:
    """Every offset where the terminal can end; None says that the data ran out inside it."""
    if isinstance(node, Literal):
        if data.startswith(node.data, at):
            yield at + len(node.data)
        elif node.data.startswith(data[at:]):
            yield None
    elif isinstance(node, Bytes):
        if at == len(data):
            yield None
        elif data[at] in node.values:
            yield at + 1
    elif isinstance(node, Chars):
        yield from _char_ends(node, data, at)
    elif isinstance(node, Regular):
        yield from _regular_ends(node, data, at)
    elif isinstance(node, Token | ExcludeToken) and at == len(data):
        yield None


def _char_ends(node: Chars, data: bytes, at: int) -> Iterator[int | None]:
    low, high, end = decode(data, at)
    if end is None:
        if any(first <= high and last >= low for first, last in node.chars.ranges):
            yield None
    elif low in node.chars:
        yield end


def _regular_ends(node: Regular, data: bytes, at: int) -> Iterator[int | None]:
    # The automaton is trimmed: every state that it reaches can still accept.
    automaton = node.automaton
    state: int | None = 0
    while state is not None:
        if state in automaton.accepting:
            yield at
        code, high, end = decode(data, at)
        if end is None:
            for chars, _ in automaton.edges[state]:
                if any(first <= high and last >= code for first, last in chars.ranges):
                    yield None
            return
        state = automaton.step(state, code)
        at = end


def decode(data: bytes, at: int) -> tuple[int, int, int | None]:
    """The character at an offset: (code, code, end), or (low, high, None) for an unfinished one.

    Bytes that begin no character give the empty interval (0, -1).
    """
    window = data[at : at + 4]
    for size in range(1, len(window) + 1):
        try:
            code = ord(window[:size].decode())
        except UnicodeDecodeError:
            continue
        return code, code, at + size
    if not window:
        return 0, 0x10FFFF, None
    lead = window[0]
    size = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2
    if not 0xC2 <= lead <= 0xF4 or len(window) >= size or any(byte & 0xC0 != 0x80 for byte in window[1:]):
        return 0, -1, None
    low = high = lead & (0x7F >> size)
    for byte in window[1:]:
        low = high = low << TAIL_BITS | byte & 0x3F
    missing = TAIL_BITS * (size - len(window))
    low, high = low << missing, (high + 1 << missing) - 1
    smallest = {2: 0x80, 3: 0x800, 4: 0x10000}[size]
    return max(low, smallest), min(high, 0x10FFFF), None
