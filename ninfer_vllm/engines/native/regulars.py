"""Units of regular terminals: the texts of one automaton over characters, read byte by byte.

Theory of operation. A state is a state of the automaton or the inside of a character, and its transitions are rows of
tables from the start: no positions, no stacks. A row is made when it is first needed. With a terminator, a text ends
behind that byte, and no exit can stand inside free text; without one, it ends wherever the automaton accepts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ninfer_vllm.automata.utf8 import Branch, Fork, Forks
from ninfer_vllm.engines.native.arrays import ACCEPTS, DEAD, UNKNOWN, Grid, Ints, Words
from ninfer_vllm.engines.native.kinds import Segment
from ninfer_vllm.engines.native.masks import Covered, Walker
from ninfer_vllm.engines.native.sinks import Sinks
from ninfer_vllm.engines.native.tables import Tables
from ninfer_vllm.engines.native.trie import Trie
from ninfer_vllm.grammar.ir import Regular
from ninfer_vllm.limits import NATIVE_UNIT_BYTES

END = -1
"""The place behind the terminator."""

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
        assert terminator is None or ends_surely(item, terminator)
        self.item = item
        self.terminator = terminator
        self.tables = Tables()
        self._shared = shared
        self._sinks = Sinks()
        self._forks = Forks()
        self._places: list[int | Fork] = []
        self._numbers: dict[int | Fork, int] = {}
        self._live: dict[int, int] = {}
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
            return self._number(self._forks.adopted(place) if isinstance(place, Fork) else place)

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
            if tables.flags[state] & ACCEPTS:
                return state, at + 1
        return state, len(data)

    def ends(self, state: int) -> bool:
        """Whether the unit's text may end in a state."""
        return bool(self.tables.flags[state] & ACCEPTS)

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
        if isinstance(place, Fork) or place == END:
            return None
        sink = self._sinks.of(self.item.automaton, place)
        if sink is None or (place == 0 and sink == self.item):
            return None
        return self._shared(sink, self.terminator).covered(self.start)

    def num_live(self, state: int) -> int:
        """How many different bytes a state reads."""
        found = self._live.get(state)
        if found is None:
            found = self._live[state] = sum(high - low + 1 for low, high, _ in self.segments(state))
        return found

    def supply(self, state: int, byte: int) -> None:
        """Compute the transitions of a state that a walk has missed; `byte` is the one it met."""
        del byte
        self.expand(state)

    def expand(self, state: int) -> None:
        """Give a state its row, transitions included."""
        if self.tables.row_of[state] != UNKNOWN:
            return
        with self._lock:
            classes: dict[int | Fork, int] = {}
            segments = tuple(
                (low, high, classes.setdefault(below, len(classes) + 1))
                for low, high, below in self._branches(self._places[state])
            )
            targets = [self._number(place) for place in classes]
            self.tables.add_row(state, self.tables.add_map(segments), targets)

    def _branches(self, place: int | Fork) -> tuple[Branch, ...]:
        if isinstance(place, Fork):
            return place.branches
        if place == END:
            return ()
        automaton, terminator = self.item.automaton, self.terminator
        found = self._forks.branches(automaton.edges[place])
        if terminator is None or place not in automaton.accepting:
            return found
        return tuple(sorted((*found, (terminator, terminator, END)), key=lambda branch: branch[0]))

    def _number(self, place: int | Fork) -> int:
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
    automaton = item.automaton
    if terminator >= 0x80:
        return False
    return not any(terminator in chars for state in automaton.accepting for chars, _ in automaton.edges[state])
