"""A grammar bound to a vocabulary: its states, masks and token transitions, shared by all its matchers."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from ninfer_vllm.engines.native.arrays import ACCEPTS, DEAD, NAMES, Words
from ninfer_vllm.engines.native.automaton import Automaton
from ninfer_vllm.engines.native.composed import GrammarWalker
from ninfer_vllm.engines.native.facts import Facts
from ninfer_vllm.engines.native.kinds import Kind
from ninfer_vllm.engines.native.positions import Positions
from ninfer_vllm.engines.native.transfer import transferred
from ninfer_vllm.engines.native.trie import Trie
from ninfer_vllm.engines.native.units import GrammarUnits, SharedUnits
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.limits import NATIVE_GRAMMAR_BYTES
from ninfer_vllm.masks.bits import MaskRow, row_of
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

MEASURED_EVERY = 64
"""New masks and moves between two looks at the memory they take."""

MOVE_BYTES = 130
"""Measured memory of a remembered move."""


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """What all grammars of one vocabulary share."""

    vocabulary: Vocabulary
    trie: Trie
    units: SharedUnits
    ends: Words
    """The row of the EOS tokens."""
    named: Words
    """The row of the tokens that a grammar may name: ordinary ones with bytes, and control tokens."""
    spelled: Words
    """The row of the ordinary tokens with bytes."""

    @classmethod
    def of(cls, vocabulary: Vocabulary, trie: Trie) -> Domain:
        """The domain of a vocabulary."""
        size = len(vocabulary)
        spelled = row_of(trie.tokens, size).view(np.uint32)
        control = row_of(vocabulary.ids(TokenClass.CONTROL), size).view(np.uint32)
        ends = row_of(vocabulary.ids(TokenClass.EOS), size).view(np.uint32)
        return cls(vocabulary, trie, SharedUnits(trie, vocabulary.words), ends, spelled | control, spelled)


class Run:
    """What has been found out about one grammar so far. Thread-safe; what is known is read without a lock."""

    def __init__(self, grammar: Grammar, facts: Facts, domain: Domain) -> None:
        self._domain = domain
        self._lock = threading.RLock()
        self._units = GrammarUnits(domain.units)
        positions = Positions(grammar, facts, self._units)
        self.automaton = Automaton(positions, positions.rule(grammar.root), domain.trie.max_depth)
        self._walker = GrammarWalker(self.automaton, domain.trie, domain.vocabulary.words, keeps_exits=False)
        self.masks: dict[int, MaskRow] = {}
        """State -> legal tokens, where they are known."""
        self.dead_ends: set[int] = set()
        """The states among them without a legal token."""
        self.moves: dict[int, int] = {}
        """State and token in one number -> state, where it is known."""
        self.width = len(domain.vocabulary)
        self._unmeasured = 0
        self._nbytes = self._measured()
        self.is_full = False
        """Whether another one should take its place."""

    @property
    def nbytes(self) -> int:
        """About how much memory this took when last measured."""
        return self._nbytes

    def _measured(self) -> int:
        return self.automaton.nbytes + self._walker.nbytes + self._units.nbytes + MOVE_BYTES * len(self.moves)

    def adopted(self, other: Run, state: int) -> int:
        """The state of this run that stands for one of another run of the same grammar.

        Errors: LimitExceeded where it would take too much work.
        """
        with self._lock:
            self.automaton.begin()
            return transferred(state, other.automaton, self.automaton)

    def mask(self, state: int) -> MaskRow:
        """The legal tokens of a state.

        Errors: LimitExceeded where it would take too much work.
        """
        found = self.masks.get(state)
        if found is None:
            with self._lock:
                self.automaton.begin()
                found = self.masks[state] = self._mask(state)
                self._measure()
        return found

    def move(self, state: int, token: int) -> int:
        """The state behind a token other than EOS, or DEAD.

        Errors: LimitExceeded where it would take too much work.
        """
        key = state * self.width + token
        found = self.moves.get(key)
        if found is None:
            with self._lock:
                self.automaton.begin()
                found = self._move(state, token)
                self.moves[key] = found
                self._measure()
        return found

    def read(self, state: int, data: bytes) -> tuple[int, int]:
        """The state behind some text, or DEAD, and how many bytes were read."""
        with self._lock:
            self.automaton.begin()
            found = self.automaton.run(state, data)
            self._measure()
            return found

    def _measure(self) -> None:
        """Now and then, see whether this has grown too large."""
        self._unmeasured += 1
        if self._unmeasured >= MEASURED_EVERY and not self.is_full:
            self._unmeasured = 0
            self._nbytes = self._measured()
            self.is_full = self._units.is_full or self._nbytes > NATIVE_GRAMMAR_BYTES

    def _mask(self, state: int) -> MaskRow:
        domain, rows = self._domain, self._walker.rows
        row = self._walker.covered(state).row
        flags = self.automaton.tables.flags(state)
        if flags & ACCEPTS:
            row = row | domain.ends
        for position, _ in self.automaton.configs[state] if flags & NAMES else ():
            kind = self.automaton.positions.kinds[position]
            if kind in (Kind.TOKEN, Kind.EXCLUDE):
                ids = self.automaton.positions.parts[position][0]
                named = row_of([token for token in ids if 0 <= token < self.width], self.width).view(np.uint32)
                row = row | (named & domain.named if kind is Kind.TOKEN else domain.spelled & ~named)
        row = rows.shared(row)
        if rows.is_empty(row):
            self.dead_ends.add(state)
        return row.view(np.int32)

    def _move(self, state: int, token: int) -> int:
        automaton, vocabulary = self.automaton, self._domain.vocabulary
        token_class = vocabulary.class_of(token)
        spelling = vocabulary.spellings[token] if token_class is TokenClass.ORDINARY else b""
        if token_class is not TokenClass.CONTROL and not spelling:
            return DEAD
        found = self._named(state, token, is_text=bool(spelling))
        if spelling:
            behind, _ = automaton.run(state, spelling)
            if behind != DEAD:
                found.append(behind)
        return DEAD if not found else found[0] if len(found) == 1 else automaton.joined(found)

    def _named(self, state: int, token: int, *, is_text: bool) -> list[int]:
        """The states behind token terminals that take the token."""
        automaton = self.automaton
        found = []
        for position, stack in automaton.configs[state]:
            kind = automaton.positions.kinds[position]
            if kind in (Kind.TOKEN, Kind.EXCLUDE):
                ids, after = automaton.positions.parts[position]
                if token in ids if kind is Kind.TOKEN else is_text and token not in ids:
                    found.append(automaton.enter(((after, stack),)))
        return found
