"""Units of regular terminals: the texts of one automaton over characters, read byte by byte.

Theory of operation. A state is a state of the automaton or the inside of a character, and its transitions are rows of
tables from the start: no positions, no stacks. A row is made when it is first needed. With a terminator, a text ends
behind that byte, and no exit can stand inside free text; without one, it ends wherever the automaton accepts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import numpy as np

from ninfer_vllm.automata.charset import CharSet, Range
from ninfer_vllm.automata.utf8 import ONE_BYTE, Branch, Fork, Forks
from ninfer_vllm.engines.native.arrays import ACCEPTS, DEAD, Grid, Ints, Words
from ninfer_vllm.engines.native.compiled import compiled_row_kernels
from ninfer_vllm.engines.native.kinds import Need, Segment
from ninfer_vllm.engines.native.masks import Covered, Walker
from ninfer_vllm.engines.native.sinks import Sinks
from ninfer_vllm.engines.native.tables import BYTES, Tables
from ninfer_vllm.engines.native.trie import Trie
from ninfer_vllm.grammar.ir import Regular
from ninfer_vllm.limits import NATIVE_UNIT_BYTES

END = -1
"""The place behind the terminator."""

AHEAD = 8
"""States along the most frequent bytes that get their rows together."""

NO_OTHERS = 0
"""The number of no ranges beyond ASCII."""

Cut = tuple[tuple[Range, ...], int]
"""The ASCII ranges of a set and the number of its others."""

Place = int | tuple[Fork, tuple[int, ...]]
"""A state of the automaton, or the inside of a character with the states that its characters lead to."""

PLACE_BYTES = 400
"""Measured memory of a state, beside the tables."""


class RegularUnit:
    """The texts of an automaton, then a fixed byte where there is a terminator. Thread-safe."""

    start = 0
    """The state before the text."""

    def __init__(
        self,
        item: Regular,
        terminator: int | None,
        trie: Trie,
        words: int,
        shared: Callable[[Regular, int | None], RegularUnit],
    ) -> None:
        self.item = item
        self.terminator = terminator
        self.tables = Tables()
        self._shared = shared
        self._sinks = Sinks()
        self._forks = Forks()
        self._cuts: dict[int, Cut] = {}
        """By the identities of the automaton's sets, which stay their own as long as the item is kept."""
        self._others: dict[tuple[Range, ...], int] = {(): NO_OTHERS}
        """Numbers of ranges beyond ASCII: most sets of an automaton have the same ones."""
        self._leads: dict[tuple[tuple[int, int], ...], tuple[Branch, ...]] = {}
        self._places: list[Place] = []
        self._numbers: dict[Place, int] = {}
        self._walker = _UnitWalker(self, trie, words)
        self._lock = threading.RLock()
        self._number(0)

    @property
    def nbytes(self) -> int:
        """About how much memory the unit takes."""
        return self.tables.nbytes + PLACE_BYTES * len(self._places) + self._walker.nbytes

    @property
    def is_full(self) -> bool:
        """Whether the unit has grown so large that a new one should take its place."""
        return self.nbytes > NATIVE_UNIT_BYTES

    def adopted(self, other: RegularUnit, state: int) -> int:
        """The state of this unit that stands for one of an equal unit."""
        if other is self:
            return state
        place = other._places[state]
        with self._lock:
            return self._number(place if isinstance(place, int) else (self._forks.adopted(place[0]), place[1]))

    def segments(self, state: int) -> tuple[Segment, ...]:
        """What a state reads."""
        with self._lock:
            self.expand(state)
            return self.tables.segments(state)

    def target(self, state: int, byte_class: int) -> int:
        """The state behind a byte of a class."""
        self.expand(state)
        return self.tables.get(state, byte_class)

    def run(self, state: int, data: bytes) -> tuple[int, int]:
        """The state behind as many bytes as do not reach an end, or the first one that does; DEAD at a wrong byte."""
        tables = self.tables
        for at, byte in enumerate(data):
            self.expand(state)
            state = tables.get(state, tables.class_of(state, byte))
            if state == DEAD:
                return DEAD, at
            if tables.flags(state) & ACCEPTS:
                return state, at + 1
        return state, len(data)

    def ends(self, state: int) -> bool:
        """Whether the unit's text may end in a state."""
        return bool(self.tables.flags(state) & ACCEPTS)

    accepts = ends

    def near(self, state: int) -> int:
        """The state no single token can tell from this one."""
        return state

    def alike(self, state: int) -> None:
        """Nothing is counted, so there is no simpler state."""
        del state

    def covered(self, state: int) -> Covered:
        """The tokens that stay inside the unit from a state on, and where it can end."""
        with self._lock:
            return self._walker.covered(state)

    def walk_on(self, ranges: Grid, state: int, row: Words) -> Ints:
        """Add to the row the tokens on some stretches of the trie that stay inside the unit; where it can end there."""
        with self._lock:
            return self._walker.walk_on(ranges, state, row)

    def covered_as_sink(self, state: int) -> Covered | None:
        """The tokens of a state behind which free text is all that is left, as another unit knows them."""
        place = self._places[state]
        if not isinstance(place, int) or place == END:
            return None
        sink = self._sinks.of(self.item.automaton, place)
        if sink is None or (place == 0 and sink == self.item):
            return None
        return self._shared(sink, self.terminator).covered(self.start)

    def num_live(self, state: int) -> int:
        """How many different bytes a state reads."""
        self.expand(state)
        return self.tables.num_live(state)

    def supply(self, needs: Iterable[Need]) -> None:
        """Compute the rows that a walk has missed, and those that it is likely to miss next."""
        tables = self.tables
        for state, _, byte in needs:
            if not tables.is_known(state):
                self._expand_chain(state)
            if byte >= 0:
                target = tables.get(state, tables.class_of(state, byte))
                if target != DEAD and not tables.is_known(target):
                    self.expand(target)

    def _expand_chain(self, state: int) -> None:
        """Give states along the most frequent bytes their rows: counts make chains of them."""
        for _ in range(AHEAD):
            self.expand(state)
            state = self.tables.get(state, self.tables.widest_class(state))
            if state == DEAD or self.tables.is_known(state):
                return

    def expand(self, state: int) -> None:
        """Give a state its row, transitions included."""
        if self.tables.is_known(state):
            return
        with self._lock:
            targets = self._targets(self._places[state])
            classes, found = np.empty(BYTES, np.uint16), np.empty(BYTES, np.int32)
            count = compiled_row_kernels().classified(targets, classes, found)
            self.tables.add_row(state, self.tables.add_map(classes), found[:count].tolist())

    def _targets(self, place: Place) -> Ints:
        """The state behind each byte at a place, or DEAD."""
        targets: Ints = np.full(BYTES, DEAD, np.int32)
        if not isinstance(place, int):
            fork, behind = place
            for low, high, below in fork.branches:
                targets[low : high + 1] = self._number(behind[below] if isinstance(below, int) else (below, behind))
        elif place != END:
            self._read_characters(place, targets)
            if self.terminator is not None and place in self.item.automaton.accepting:
                targets[self.terminator] = self._number(END)
        return targets

    def _read_characters(self, place: int, targets: Ints) -> None:
        beyond: list[tuple[int, int]] = []
        behind: dict[int, int] = {}
        for chars, target in self.item.automaton.edges[place]:
            number = self._number(target)
            ascii_ranges, others = self._cut(chars)
            for low, high in ascii_ranges:
                targets[low : high + 1] = number
            if others != NO_OTHERS:
                beyond.append((others, behind.setdefault(target, len(behind))))
        if beyond:
            order = tuple(behind)
            for low, high, below in self._leads_of(tuple(beyond)):
                targets[low : high + 1] = self._number(order[below] if isinstance(below, int) else (below, order))

    def _cut(self, chars: CharSet) -> Cut:
        found = self._cuts.get(id(chars))
        if found is None:
            ascii_ranges = tuple((low, min(high, ONE_BYTE - 1)) for low, high in chars.ranges if low < ONE_BYTE)
            others = tuple((max(low, ONE_BYTE), high) for low, high in chars.ranges if high >= ONE_BYTE)
            found = self._cuts[id(chars)] = ascii_ranges, self._others.setdefault(others, len(self._others))
        return found

    def _leads_of(self, beyond: tuple[tuple[int, int], ...]) -> tuple[Branch, ...]:
        """What first bytes beyond ASCII lead to, by numbers of ranges with a number for what they lead to.

        Automata over text mostly treat all characters beyond ASCII alike, wherever those lead to.
        """
        leads = self._leads.get(beyond)
        if leads is None:
            ranges = list(self._others)
            pieces = sorted((low, high, number) for others, number in beyond for low, high in ranges[others])
            leads = self._leads[beyond] = self._forks.beyond_ascii(pieces)
        return leads

    def _number(self, place: Place) -> int:
        number = self._numbers.get(place)
        if number is None:
            if place == END or (self.terminator is None and place in self.item.automaton.accepting):
                number = self.tables.add_state(ACCEPTS)
            else:
                number = self.tables.add_state(0)
            self._numbers[place] = number
            self._places.append(place)
        return number


class _UnitWalker(Walker):
    """Covers the states of a regular unit."""

    def __init__(self, unit: RegularUnit, trie: Trie, words: int) -> None:
        super().__init__(unit, trie, words, keeps_exits=True)
        self._unit = unit

    def _composed(self, state: int) -> tuple[Words, Ints] | None:
        found = self._unit.covered_as_sink(state)
        return None if found is None else (found.row, found.exits)


def ends_surely(item: Regular, terminator: int) -> bool:
    """Whether a byte behind a text of the automaton can only be the terminator."""
    return terminator < ONE_BYTE and not item.automaton.ascii_behind >> terminator & 1
