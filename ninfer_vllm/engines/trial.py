"""Trial runs of a freshly compiled grammar, in the compile process: they find grammars that would hold up the engine.

The core gives no bound on the time of one mask: ambiguous counts and ambiguous recursion make it follow very many
readings of one text. So random members are read with a mask at each character, and from some places the last character
is repeated for as long as it is legal, which is where readings multiply. `glance` says whether all calls are fast over
a sample of the vocabulary; where they are not, `study` looks longer, over all of it, and refuses what is too slow.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.ir import ExcludeToken, Grammar, Token
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.limits import CHARACTER_S, MASK_S
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

GLANCE_S = 0.01
"""CPU seconds of a trial that meets nothing slow."""

STUDY_S = 1.5
"""CPU seconds of a trial that does."""


SLOW_MASK_S = 0.008
"""CPU seconds of one slow mask: several times what everyday schemas take at most, and over the sample, where a mask can
be 30 times as fast, no less than what `MASK_S` forbids over the whole."""

SLOW_CHARACTER_S = 0.001
SLOW_RUN_S = 0.05
"""CPU seconds of one slow character, and of a slow run of one character with its masks."""

TEXTS = 4
"""Random members that are read."""

TEXT_BYTES = 96
"""Length at which members steer to their end."""

RUN = 192
"""Longest run of one repeated character."""

RUN_EVERY = 8
"""Characters between two runs."""

PLACEHOLDER = re.compile(rb"\xff(\d+)\xff")
"""A token terminal in a member: the byte FF is in no text."""


class CoreMatcher(Protocol):
    """What the trial needs of a matcher of the core."""

    def accept_token(self, token: int, /) -> bool: ...
    def accept_bytes(self, data: bytes, /) -> bool: ...
    def rollback(self, count: int, /) -> None: ...
    def fill(self) -> None: ...


def glance(grammar: Grammar, vocabulary: Vocabulary, matcher: Callable[[], CoreMatcher]) -> bool:
    """Whether every call of a short trial over the sampled vocabulary was fast."""
    clock = _Clock(budget_slow_s=0.0)
    _read_members(grammar, vocabulary, matcher, clock)
    return not clock.met_slow


def study(grammar: Grammar, vocabulary: Vocabulary, matcher: Callable[[], CoreMatcher]) -> None:
    """A trial over the whole vocabulary; Errors: LimitExceeded where a mask or a character takes too long."""
    _read_members(grammar, vocabulary, matcher, _Clock(budget_slow_s=STUDY_S))


class _Clock:
    """CPU time of single calls of the core, and of all of them."""

    def __init__(self, *, budget_slow_s: float) -> None:
        self.met_slow = False
        self._budget_slow_s = budget_slow_s
        self.spent_s = 0.0

    def mask(self, matcher: CoreMatcher) -> None:
        """One mask."""
        start = time.thread_time()
        matcher.fill()
        self._count("mask_s", time.thread_time() - start, SLOW_MASK_S, MASK_S)

    def accept(self, matcher: CoreMatcher, piece: bytes | int) -> bool:
        """One character, or one token of a token terminal."""
        start = time.thread_time()
        accepted = matcher.accept_token(piece) if isinstance(piece, int) else matcher.accept_bytes(piece)
        self._count("character_s", time.thread_time() - start, SLOW_CHARACTER_S, CHARACTER_S)
        return accepted

    @property
    def is_over(self) -> bool:
        """Whether enough has been seen."""
        return self.spent_s > (self._budget_slow_s if self.met_slow else GLANCE_S)

    def is_over_run(self, start_s: float) -> bool:
        """Whether a run that began when `start_s` was spent is to stop: not for the time of a short trial, but when it
        is slow itself, for readings that multiply show only in its later calls."""
        self.met_slow |= self.spent_s - start_s > SLOW_RUN_S
        return self.met_slow and self.is_over

    def _count(self, limit: str, taken: float, slow: float, allowed: float) -> None:
        self.spent_s += taken
        self.met_slow |= taken > slow
        if taken > allowed and self._budget_slow_s:
            raise LimitExceeded(limit, allowed, round(taken, 3))


def _read_members(grammar: Grammar, vocabulary: Vocabulary, matcher: Callable[[], CoreMatcher], clock: _Clock) -> None:
    rng = random.Random(0)
    for _ in range(TEXTS):
        text = sample(grammar, rng, TEXT_BYTES, lambda terminal: _placeholder(terminal, vocabulary))
        if not _read(text, matcher(), clock):
            return


def _read(text: bytes, matcher: CoreMatcher, clock: _Clock) -> bool:
    """Read one member as far as the time lasts; returns whether any is left."""
    for at, piece in enumerate(_pieces(text)):
        if clock.is_over:
            return False
        clock.mask(matcher)
        clock.accept(matcher, piece)
        if isinstance(piece, bytes) and at % RUN_EVERY == 0:
            _run(piece, matcher, clock)
    return not clock.is_over


def _run(char: bytes, matcher: CoreMatcher, clock: _Clock) -> None:
    """Repeat one character while it is legal and time lasts, with ever rarer masks; then go back."""
    count = 0
    start_s = clock.spent_s
    while count < RUN and not clock.is_over_run(start_s) and clock.accept(matcher, char):
        count += 1
        if count & (count - 1) == 0:
            clock.mask(matcher)
    if count:
        clock.mask(matcher)
        matcher.rollback(count)


def _pieces(text: bytes) -> Iterator[bytes | int]:
    """The bytes of a member one by one, token terminals as ids."""
    parts = PLACEHOLDER.split(text)
    for number, part in enumerate(parts):
        if number % 2:
            yield int(part)
        else:
            yield from (part[at : at + 1] for at in range(len(part)))


def _placeholder(terminal: Token | ExcludeToken, vocabulary: Vocabulary) -> bytes:
    excludes = isinstance(terminal, ExcludeToken)
    usable = (TokenClass.ORDINARY,) if excludes else (TokenClass.ORDINARY, TokenClass.CONTROL)
    candidates = range(len(vocabulary)) if excludes else sorted(terminal.ids)
    for token in candidates:
        if (token in terminal.ids) != excludes and vocabulary.class_of(token) in usable:
            return b"\xff%d\xff" % token
    return b""
