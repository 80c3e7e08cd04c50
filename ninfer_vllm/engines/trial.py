"""A trial run of a freshly compiled grammar, in the compile process: finds grammars that would hold up the engine.

The core gives no bound on the time of one mask: ambiguous counts and ambiguous recursion make it follow very many
readings of one text. So random members are read with a mask at each character, and from some places the last character
is repeated for as long as it is legal, which is where readings multiply. A fast grammar costs the time of `GLANCE_S`;
one that shows a slow mask is looked at for longer.
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

GLANCE_S = 0.02
"""CPU seconds spent on a grammar whose masks are all fast."""

STUDY_S = 1.5
"""CPU seconds spent on a grammar with a slow mask."""

SLOW_MASK_S = 0.008
SLOW_CHARACTER_S = 0.001
"""CPU seconds of one call that ask for a study: two to ten times what everyday schemas take at most."""

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


def try_out(grammar: Grammar, vocabulary: Vocabulary, matcher: Callable[[], CoreMatcher]) -> None:
    """Read random members of a pruned grammar; Errors: LimitExceeded where a mask or a character takes too long."""
    rng = random.Random(0)
    clock = _Clock()
    for _ in range(TEXTS):
        text = sample(grammar, rng, TEXT_BYTES, lambda terminal: _placeholder(terminal, vocabulary))
        if not _read(text, matcher(), clock):
            return


class _Clock:
    """CPU time of single calls of the core, and of all of them."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.budget_s = GLANCE_S

    def mask(self, matcher: CoreMatcher) -> None:
        """One mask; Errors: LimitExceeded."""
        start = time.thread_time()
        matcher.fill()
        self._count("mask_s", time.thread_time() - start, SLOW_MASK_S, MASK_S)

    def accept(self, matcher: CoreMatcher, piece: bytes | int) -> bool:
        """One character, or one token of a token terminal; Errors: LimitExceeded."""
        start = time.thread_time()
        accepted = matcher.accept_token(piece) if isinstance(piece, int) else matcher.accept_bytes(piece)
        self._count("character_s", time.thread_time() - start, SLOW_CHARACTER_S, CHARACTER_S)
        return accepted

    def _count(self, limit: str, taken: float, slow: float, allowed: float) -> None:
        self.spent_s += taken
        if taken > slow:
            self.budget_s = STUDY_S
        if taken > allowed:
            raise LimitExceeded(limit, allowed, round(taken, 3))

    @property
    def is_over(self) -> bool:
        """Whether enough has been seen."""
        return self.spent_s > self.budget_s


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
    while count < RUN and not clock.is_over and clock.accept(matcher, char):
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
