"""`NativeMatcher`: where one sample stands, which is one number."""

from __future__ import annotations

from typing import Protocol

from ninfer_vllm.engines.native.arrays import DEAD
from ninfer_vllm.engines.native.grammar import Run
from ninfer_vllm.errors import LimitExceeded, MatcherInconsistency
from ninfer_vllm.masks.bits import MaskRow

ENDED = -3
"""Behind EOS."""


class RunSource(Protocol):
    """Where matchers get what is known about their grammar."""

    def current(self) -> Run:
        """The run that new work goes to."""


class NativeMatcher:
    """Where one sample stands in its grammar; owned by one session, never shared."""

    __slots__ = ("_ends", "_past", "_run", "_source", "_state")

    def __init__(self, source: RunSource, ends: frozenset[int]) -> None:
        self._source = source
        self._run = source.current()
        self._ends = ends
        self._state = self._run.automaton.root
        self._past: list[int] = []

    def accept(self, token: int) -> bool:
        """Advance by one token; False (and nothing changed) where it is illegal."""
        state = self._state
        if state == ENDED:
            return False
        if token in self._ends:
            target = ENDED if self._run.automaton.accepts(state) else DEAD
        else:
            target = self._run.move(state, token) if 0 <= token < self._run.width else DEAD
        if target == DEAD:
            return False
        self._past.append(state)
        self._state = target
        return True

    def accept_bytes(self, data: bytes) -> int:
        """Advance over text without tokens; returns how many bytes were accepted."""
        if not data or self._state == ENDED:
            return 0
        target, accepted = self._run.read(self._state, data)
        if target != DEAD:
            self._past.append(self._state)
            self._state = target
        return accepted

    def rollback(self, count: int) -> None:
        """Undo the last `count` accepted tokens."""
        if not 0 <= count <= len(self._past):
            raise MatcherInconsistency(f"rollback of {count} tokens")
        if count:
            self._state = self._past[-count]
            del self._past[-count:]

    def forget(self) -> int:
        """Drop what rollback needs, and leave a run that has grown too large for the one in its place."""
        self._past.clear()
        if self._run.is_full:
            self._move_on()
        return 0

    def fill(self, row: MaskRow) -> bool:
        """Write the legal set of the next token over the whole row; returns whether any token is legal."""
        if self._state == ENDED:
            row.fill(0)
            return False
        row[:] = self._run.mask(self._state)
        return self._state not in self._run.dead_ends

    @property
    def complete(self) -> bool:
        """Whether the text so far is in the language, or has already been ended by EOS."""
        return self._state == ENDED or self._run.automaton.accepts(self._state)

    @property
    def terminated(self) -> bool:
        """Whether EOS has been accepted."""
        return self._state == ENDED

    def _move_on(self) -> None:
        """Leave a run that has grown too large for the one that has taken its place."""
        run = self._source.current()
        if run is self._run:
            return
        if self._state != ENDED:
            try:
                self._state = run.adopted(self._run, self._state)
            except LimitExceeded:
                # A parse situation so large is better kept where it is.
                return
        self._run = run
