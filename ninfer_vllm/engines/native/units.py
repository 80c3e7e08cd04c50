"""Units: free text up to a fixed byte, as automata of their own that grammars share.

A JSON string is the plain case: any number of characters, then the quote. A unit has one state a number of characters
that may and must still come, whatever bounds the grammar gave, so that a mask inside a string of at most 20 characters
serves one of at most 50 as well.
"""

from __future__ import annotations

import threading

from ninfer_vllm.engines.native.arrays import ACCEPTS, DEAD, Grid, Ints, Words
from ninfer_vllm.engines.native.automaton import Automaton
from ninfer_vllm.engines.native.closed import has_wide_set
from ninfer_vllm.engines.native.composed import GrammarWalker
from ninfer_vllm.engines.native.facts import Facts
from ninfer_vllm.engines.native.kinds import END, Segment, UnitSource
from ninfer_vllm.engines.native.masks import Covered
from ninfer_vllm.engines.native.positions import Positions
from ninfer_vllm.engines.native.regulars import RegularUnit
from ninfer_vllm.engines.native.sinks import Sinks
from ninfer_vllm.engines.native.stacks import UNBOUNDED, counted
from ninfer_vllm.engines.native.transfer import transferred
from ninfer_vllm.engines.native.trie import Trie
from ninfer_vllm.grammar.ir import Expr, Grammar, Literal, Regular
from ninfer_vllm.limits import NATIVE_UNIT_BYTES, NATIVE_UNITS_BYTES

ROOT = "item"

MEASURED_EVERY = 32
"""New units between two looks at the memory they all take."""

SHARED_STATES = 256
"""States of an automaton without free text that grammars may have in common: numbers have up to two hundred."""


class Unit:
    """Copies of one item, then one byte. Thread-safe."""

    def __init__(self, item: Expr, terminator: int, trie: Trie, words: int, units: UnitSource) -> None:
        grammar = Grammar({ROOT: item}, ROOT)
        self.item = item
        self.terminator = terminator
        self._facts = Facts(grammar)
        positions = Positions(grammar, self._facts, units)
        self._end = positions.start(Literal(bytes((terminator,))), END)
        self._automaton = Automaton(positions, self._end, trie.max_depth)
        self._walker = GrammarWalker(self._automaton, trie, words, keeps_exits=True)
        self._lock = threading.RLock()

    @property
    def nbytes(self) -> int:
        """About how much memory the unit takes."""
        return self._automaton.nbytes + self._walker.nbytes

    @property
    def is_full(self) -> bool:
        """Whether the unit has grown so large that a new one should take its place."""
        return self.nbytes > NATIVE_UNIT_BYTES

    def enter(self, minimum: int, maximum: int | None) -> int:
        """The state before the unit's text."""
        with self._lock:
            automaton, positions = self._automaton, self._automaton.positions
            automaton.begin()
            if self._facts.nullable(self.item):
                minimum = 0
            frame = (UNBOUNDED, minimum, minimum) if maximum is None else counted(maximum - minimum, maximum, maximum)
            kernel = [(self._end, automaton.bottom)] if minimum == 0 else []
            if maximum != 0:
                back = positions.repeated(self.item, self._end)
                stack = automaton.stacks.intern([(back, *frame, automaton.bottom)])
                kernel.append((positions.entry(self.item), stack))
            return automaton.enter(tuple(sorted(kernel)))

    def adopted(self, other: Unit, state: int) -> int:
        """The state of this unit that stands for one of an equal unit."""
        if other is self:
            return state
        with self._lock:
            self._automaton.begin()
            return transferred(state, other._automaton, self._automaton)

    def segments(self, state: int) -> tuple[Segment, ...]:
        """What a state reads."""
        with self._lock:
            return self._automaton.segments(state)

    def num_live(self, state: int) -> int:
        """How many different bytes a state reads."""
        with self._lock:
            return self._automaton.num_live(state)

    def target(self, state: int, byte_class: int) -> int:
        """The state behind a byte of a class."""
        with self._lock:
            self._automaton.begin()
            return self._automaton.target(state, byte_class)

    def run(self, state: int, data: bytes) -> tuple[int, int]:
        """The state behind as many bytes as do not reach an end, or the first one that does; DEAD at a wrong byte."""
        with self._lock:
            automaton = self._automaton
            automaton.begin()
            for at, byte in enumerate(data):
                state = automaton.step(state, byte)
                if state == DEAD:
                    return DEAD, at
                if automaton.accepts(state):
                    return state, at + 1
            return state, len(data)

    def ends(self, state: int) -> bool:
        """Whether the unit's text may end in a state."""
        return bool(self._automaton.tables.flags(state) & ACCEPTS)

    def near(self, state: int) -> int:
        """The state no single token can tell from this one."""
        with self._lock:
            return self._automaton.near(state)

    def covered(self, state: int) -> Covered:
        """The tokens that stay inside the unit from a state on, and where it can end."""
        with self._lock:
            self._automaton.begin()
            return self._walker.covered(state)

    def walk_on(self, ranges: Grid, state: int, row: Words) -> Ints:
        """Add to the row the tokens on some stretches of the trie that stay inside the unit; where it can end there."""
        with self._lock:
            self._automaton.begin()
            return self._walker.walk_on(ranges, state, row)


class SharedUnits:
    """The units of all grammars over one vocabulary. Thread-safe."""

    def __init__(self, trie: Trie, words: int) -> None:
        self._trie = trie
        self._words = words
        self._lock = threading.RLock()
        self._known: dict[tuple[Expr, int], Unit] = {}
        self._regular: dict[tuple[int, int, int | None], list[RegularUnit]] = {}
        self._unmeasured = 0

    def of(self, item: Expr, terminator: int) -> Unit:
        """The unit of an item; new grammars get a new one when it has grown too large."""
        with self._lock:
            key = (item, terminator)
            found = self._known.get(key)
            if found is not None and not found.is_full:
                return found
            self._keep_in_bounds()
            found = self._known[key] = Unit(item, terminator, self._trie, self._words, self)
            return found

    def regular(self, item: Regular, terminator: int | None) -> RegularUnit:
        """The unit of an automaton; equal automata have one."""
        edges = item.automaton.edges
        with self._lock:
            # To hash an automaton costs more than to compare the few that look alike.
            alike = self._regular.setdefault((len(edges), len(edges[0]), terminator), [])
            for at, known in enumerate(alike):
                if known.item == item:
                    if known.is_full:
                        del alike[at]
                        break
                    return known
            self._keep_in_bounds()
            found = self.private(item, terminator)
            self._regular.setdefault((len(edges), len(edges[0]), terminator), []).append(found)
            return found

    def private(self, item: Regular, terminator: int | None) -> RegularUnit:
        """A unit that nobody shares, though its sinks are shared ones."""
        return RegularUnit(item, terminator, self._trie, self._words, self.regular)

    @property
    def nbytes(self) -> int:
        """About how much memory all units take."""
        num_bytes = sum(unit.nbytes for unit in self._known.values())
        return num_bytes + sum(unit.nbytes for alike in self._regular.values() for unit in alike)

    def _keep_in_bounds(self) -> None:
        """Now and then, since measuring asks every unit, start over where all together are too large."""
        self._unmeasured += 1
        if self._unmeasured < MEASURED_EVERY:
            return
        self._unmeasured = 0
        if self.nbytes > NATIVE_UNITS_BYTES:
            self._known.clear()
            self._regular.clear()


class GrammarUnits:
    """The units of one grammar: shared ones, and its own automata."""

    def __init__(self, shared: SharedUnits) -> None:
        self._shared = shared
        self._sinks = Sinks()
        self._regular: dict[tuple[int, int | None], RegularUnit] = {}
        self._own: list[RegularUnit] = []
        self._counted: dict[tuple[int, int], tuple[Expr, Unit]] = {}
        self._used: dict[int, Unit | RegularUnit] = {}

    @property
    def nbytes(self) -> int:
        """About how much memory the grammar's own units take."""
        return sum(unit.nbytes for unit in self._own)

    @property
    def is_full(self) -> bool:
        """Whether one of the units should be replaced."""
        return any(unit.is_full for unit in self._used.values())

    def of(self, item: Expr, terminator: int) -> Unit:
        """The unit of an item."""
        # An item is looked for by its structure once; it is kept, so that its identity stays its own.
        known = self._counted.get((id(item), terminator))
        if known is None:
            known = self._counted[id(item), terminator] = item, self._shared.of(item, terminator)
            self._used[id(known[1])] = known[1]
        return known[1]

    def regular(self, item: Regular, terminator: int | None) -> RegularUnit:
        """The unit of an automaton."""
        # A unit keeps an item of the grammar, so that the automaton's identity stays its own.
        key = (id(item.automaton), terminator)
        unit = self._regular.get(key)
        if unit is None:
            unit = self._regular[key] = self._new_regular(item, terminator)
            self._used[id(unit)] = unit
        return unit

    def _new_regular(self, item: Regular, terminator: int | None) -> RegularUnit:
        sink = self._sinks.of(item.automaton, 0)
        if sink is not None:
            return self._shared.regular(sink, terminator)
        if len(item.automaton.edges) <= SHARED_STATES and not has_wide_set(item):
            return self._shared.regular(item, terminator)
        unit = self._shared.private(item, terminator)
        self._own.append(unit)
        return unit
