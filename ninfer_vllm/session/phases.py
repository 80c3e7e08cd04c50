"""Output phases of a thinking model around the body's matcher.

Theory of operation: in the thinking phase any ordinary text is legal and nothing of it is parsed; all that matters is
whether the text so far ends in a newline, because the canonical close is LF `</think>` LF LF (THK-3). So the phase is
one flag, its masks are fixed rows, and its cost does not grow with the reasoning (THK-6). The two newlines behind the
close belong to the body's grammar, so a token that holds them together with the first content needs no special case
(THK-5). A thinking budget counts tokens inside the block; once it is spent the mask of the phase is the one next token
of that same close, so no random number decides it, and what follows is the state behind any other close (THK-7).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ninfer_vllm.constraint import Frame
from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.masks.bits import MaskRow, is_legal, row_of
from ninfer_vllm.vocabulary import TokenClass, Vocabulary


class Phase(Enum):
    """Where in the output a sample is."""

    OPENING = "opening"
    OPENED = "opened"
    THINKING = "thinking"
    BODY = "body"


INSIDE = (Phase.OPENED, Phase.THINKING)
"""The phases whose tokens a thinking budget counts."""


@dataclass(frozen=True, slots=True, eq=False)
class ThinkingRules:
    """Control ids and fixed mask rows of a model that thinks; built once a vocabulary.

    Shapes: every row has ceil(V/32) words; `ends_line` is a row whose bit says that the token's last byte is LF.
    """

    open_id: int
    close_id: int
    opening: MaskRow
    opened: MaskRow
    inside: MaskRow
    at_line_end: MaskRow
    ends_line: MaskRow
    silent: MaskRow
    """Ordinary tokens without any byte: they leave the flag as it is."""
    line_break: MaskRow
    """The one token that a spent budget ends a line with."""
    close: MaskRow
    line_breaks: dict[int, int]
    """Ordinary tokens that are nothing but line breaks, or nothing at all, with how many they are."""

    @classmethod
    def of(cls, vocabulary: Vocabulary, open_id: int, close_id: int) -> ThinkingRules:
        """The rules of one vocabulary."""
        size = len(vocabulary)
        spelled = vocabulary.spellings
        ordinary = vocabulary.ids(TokenClass.ORDINARY)
        return cls(
            open_id,
            close_id,
            opening=row_of([open_id], size),
            opened=row_of([token for token in ordinary if spelled[token][:1] == b"\n"], size),
            inside=row_of(ordinary, size),
            at_line_end=row_of([*ordinary, close_id], size),
            ends_line=row_of([token for token in ordinary if spelled[token][-1:] == b"\n"], size),
            silent=row_of([token for token in ordinary if not spelled[token]], size),
            line_break=row_of([token for token in ordinary if spelled[token] == b"\n"][:1], size),
            close=row_of([close_id], size),
            line_breaks={token: len(spelled[token]) for token in ordinary if not spelled[token].strip(b"\n")},
        )

    @classmethod
    def of_gate(cls, vocabulary: Vocabulary, open_id: int | None, close_id: int) -> ThinkingRules:
        """The rules of a model of no known family: free reasoning up to the token that closes it, wherever that stands.

        The token that opens a block says nothing, since who writes it is not known.
        """
        size = len(vocabulary)
        said = [*vocabulary.ids(TokenClass.ORDINARY), *([] if open_id is None else [open_id])]
        free, nothing = row_of([*said, close_id], size), row_of([], size)
        every = row_of(said, size)
        close = row_of([close_id], size)
        return cls(-1, close_id, nothing, nothing, free, free, every, nothing, close, close, {})


class PhasedMatcher:
    """A `Matcher` that runs the phases before the body; rollback covers the phase as well (SES-4)."""

    def __init__(self, body: Matcher, rules: ThinkingRules, frame: Frame, budget: int | None = None) -> None:
        """Start at `frame`; after `budget` tokens inside the block its close is forced, never where it is None."""
        self._body = body
        self._rules = rules
        self._budget = budget
        self._thought = 0
        self._phase = Phase.OPENING if frame == "opening" else Phase.THINKING
        # An open block starts behind the template's `<think>` LF, so the close is legal at once.
        self._line_end = True
        self._undo: list[tuple[Phase, bool]] = []

    @property
    def phase(self) -> Phase:
        """The phase of the next token."""
        return self._phase

    @property
    def complete(self) -> bool:
        """Whether the body is complete; never while thinking."""
        return self._phase is Phase.BODY and self._body.complete

    @property
    def terminated(self) -> bool:
        """Whether EOS has been accepted."""
        return self._phase is Phase.BODY and self._body.terminated

    def accept(self, token: int) -> bool:
        """Advance by one token; False where it is illegal."""
        before = self._phase, self._line_end
        if not self._advance(token):
            return False
        self._undo.append(before)
        self._thought += before[0] in INSIDE
        return True

    def accept_bytes(self, data: bytes) -> int:
        """Advance the body over text; nothing but the body takes text."""
        return self._body.accept_bytes(data) if self._phase is Phase.BODY else 0

    def rollback(self, count: int) -> None:
        """Undo the last `count` accepted tokens."""
        in_body = 0
        for _ in range(count):
            self._phase, self._line_end = self._undo.pop()
            self._thought -= self._phase in INSIDE
            in_body += self._phase is Phase.BODY
        if in_body:
            self._body.rollback(in_body)

    def forget(self) -> int:
        """Drop the undo log, since committed tokens are never rolled back; returns how many were no body tokens."""
        outside = sum(phase is not Phase.BODY for phase, _ in self._undo)
        self._undo.clear()
        self._body.forget()
        return outside

    def fill(self, row: MaskRow) -> bool:
        """Write the legal set of the next token."""
        if self._phase is Phase.BODY:
            return self._body.fill(row)
        row[:] = self._fixed_row()
        return True

    def _fixed_row(self) -> MaskRow:
        if self._phase is Phase.OPENING:
            return self._rules.opening
        if self._budget is not None and self._thought >= self._budget:
            closable = self._phase is Phase.THINKING and self._line_end
            return self._rules.close if closable else self._rules.line_break
        if self._phase is Phase.OPENED:
            return self._rules.opened
        return self._rules.at_line_end if self._line_end else self._rules.inside

    def _advance(self, token: int) -> bool:
        if self._phase is Phase.BODY:
            return self._body.accept(token)
        rules = self._rules
        if not is_legal(self._fixed_row(), token):
            return False
        if token == rules.close_id:
            self._phase = Phase.BODY
        elif token == rules.open_id:
            self._phase = Phase.OPENED
        else:
            self._phase = Phase.THINKING
            self._line_end = is_legal(rules.ends_line, token) or (self._line_end and is_legal(rules.silent, token))
        return True
