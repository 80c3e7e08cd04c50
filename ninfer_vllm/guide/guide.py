"""`Guide`: a regular constraint over a vocabulary, with the way to an end known from every state (contract GDE)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ninfer_vllm.automata.bytedfa import BYTE_VALUES, DEAD
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.guide.kernels import UNKNOWN
from ninfer_vllm.guide.lifting import ENDED, NOTHING, Allowed, Ints, Lifting
from ninfer_vllm.guide.lower import byte_dfa
from ninfer_vllm.guide.rows import Packed, Rows
from ninfer_vllm.guide.whitespace import with_any_space
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import MaskRow
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

TOKENS_BYTES = 64 << 20
"""Default budget of token lists kept by state: some fifty states that take most of a large vocabulary."""

MASKS_BYTES = 256 << 20
"""Default budget of packed masks: more than ten thousand different rows of a large vocabulary."""

CAP_FACTOR, CAP_EXTRA = 4, 64
"""Sampling stops at `CAP_FACTOR` × the soft budget + `CAP_EXTRA` tokens, whatever the state (GDE-5)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What `Guide.monkey` drew: token ids, the end-of-sequence token included, and whether the text is complete."""

    tokens: tuple[int, ...]
    text: bytes
    finished: bool


class Guide:
    """The legal tokens of a regular constraint, state by state; immutable for its users, thread-safe and shared.

    A state is an integer: `start`, then what `step` returns. `DEAD` is behind an illegal token, `ENDED` behind an
    end-of-sequence token; both allow nothing.

    Errors: UnsupportedByEngine where the language is not regular or names token ids; Unsatisfiable; LimitExceeded.
    """

    start = 0

    def __init__(
        self,
        grammar: Grammar,
        vocabulary: Vocabulary,
        *,
        tokens_bytes: int = TOKENS_BYTES,
        masks_bytes: int = MASKS_BYTES,
    ) -> None:
        self.vocabulary = vocabulary
        self.automaton = byte_dfa(grammar)
        self._table: memoryview[int] = self.automaton.table.reshape(-1).data
        self._lifting = Lifting(self.automaton, vocabulary, tokens_bytes)
        self._rows = Rows(len(vocabulary), masks_bytes)

    @classmethod
    def of(cls, constraint: OutputConstraint, vocabulary: Vocabulary) -> Guide:
        """The guide of a constraint; JSON with flexible white space has any amount of it, at both ends as well.

        Errors: also those of the constraint's own language.
        """
        grammar = lower(constraint, vocabulary)
        is_json = constraint.kind in ("json_schema", "json_object")
        return cls(
            with_any_space(grammar) if is_json and constraint.options.whitespace == "flexible" else grammar, vocabulary
        )

    def __len__(self) -> int:
        """How many states there are; they are 0 … len - 1."""
        return len(self.automaton)

    def allowed(self, state: int) -> Allowed:
        """The legal tokens of a state, by ascending id, each with the state it leads to."""
        return self._lifting.allowed(state) if self._is_open(state) else NOTHING

    def step(self, state: int, token: int) -> int:
        """The state behind one token: `DEAD` where it is illegal, `ENDED` behind the end of a complete text."""
        if not self._is_open(state):
            return DEAD
        kind = self.vocabulary.class_of(token)
        if kind == TokenClass.EOS:
            return ENDED if self.is_complete(state) else DEAD
        spelling = self.vocabulary.spellings[token] if kind == TokenClass.ORDINARY else b""
        for byte in spelling:
            state = self._table[state * BYTE_VALUES + byte]
            if state == DEAD:
                return DEAD
        return state if spelling else DEAD

    def is_complete(self, state: int) -> bool:
        """Whether the text so far is in the language."""
        return state == ENDED or (self._is_open(state) and bool(self.automaton.accepting[state]))

    def distance(self, state: int) -> int | None:
        """The least number of bytes to a complete text; None behind an illegal token."""
        if state == ENDED:
            return 0
        return int(self.automaton.distance[state]) if self._is_open(state) else None

    def tokens_to_end(self, state: int) -> int | None:
        """A number of tokens that surely ends the text from here, the end-of-sequence token included.

        It is the least that spell the first of the shortest texts to an end; None where this vocabulary cannot spell
        it or has no end-of-sequence token.
        """
        if state == ENDED:
            return 0
        count = int(self._counts[state]) if self._is_open(state) else UNKNOWN
        return None if count >= UNKNOWN else count + 1

    def finishing(self, state: int) -> Allowed:
        """The legal tokens that come strictly nearer to an end; in a complete text, the end-of-sequence tokens."""
        legal = self.allowed(state)
        if self.is_complete(state):
            return legal.where(legal.states == ENDED)
        return (
            legal.where(self.automaton.distance[legal.states] < self.automaton.distance[state]) if len(legal) else legal
        )

    def within(self, state: int, budget: int) -> Allowed:
        """The legal tokens that leave a sure way to end inside `budget` tokens, the chosen and the last one included.

        Where `tokens_to_end(state)` is at most `budget` there is always one, and so on behind it: a text whose tokens
        are all chosen from here ends complete and in time.
        """
        legal = self.allowed(state)
        # A token that ends the text leads to no state: whatever stands at 0 is not looked at.
        counts = self._counts[np.maximum(legal.states, 0)]
        behind = np.where(legal.states == ENDED, 0, counts + 1)
        return legal.where(behind < budget)

    def mask(self, state: int) -> MaskRow:
        """The packed mask of a state, a read-only row that all callers share (MSK-1, GDE-10)."""
        return self._packed(state).row

    def fill(self, state: int, row: MaskRow) -> bool:
        """Copy the packed mask of a state over a row; returns whether any token is legal."""
        packed = self._packed(state)
        row[:] = packed.row
        return packed.has_legal

    def greedy(
        self, state: int, logits: npt.ArrayLike, *, finish: bool = False, budget: int | None = None
    ) -> int | None:
        """The legal token with the highest logit, the smallest id among equals; None where no candidate is left.

        A logit of -inf disables its token. Candidates are the tokens of `allowed`, with `finish` those of `finishing`,
        else with a `budget` those of `within`.

        Shapes: `logits` one entry a token of the vocabulary; it is only read.
        Errors: ValueError for another shape, NaN or +inf.
        """
        values = self._checked(logits)
        candidates = self._candidates(state, finish=finish, budget=budget)
        if not len(candidates):
            return None
        scores = values[candidates.tokens]
        best = int(np.argmax(scores))
        return None if np.isneginf(scores[best]) else int(candidates.tokens[best])

    def monkey_step(self, state: int, rng: random.Random, *, finish: bool) -> int | None:
        """One token drawn uniformly from `allowed`, or from `finishing`; None where there is none."""
        candidates = self.finishing(state) if finish else self.allowed(state)
        return int(candidates.tokens[rng.randrange(len(candidates))]) if len(candidates) else None

    def monkey(self, rng: random.Random, max_tokens: int) -> Sample:
        """A random text without a model: free for `max_tokens` tokens, then by the shortest way to an end.

        `max_tokens` is where finishing starts and no limit of the length. Ask `finished`: a vocabulary that cannot
        spell the way, or the hard cap of `4 × max_tokens + 64` tokens, stops an unfinished text.
        """
        state = self.start
        tokens: list[int] = []
        while state != ENDED and len(tokens) < CAP_FACTOR * max_tokens + CAP_EXTRA:
            token = self.monkey_step(state, rng, finish=len(tokens) >= max_tokens)
            if token is None:
                break
            tokens.append(token)
            state = self.step(state, token)
        spoken = tokens[:-1] if state == ENDED else tokens
        text = b"".join(self.vocabulary.spellings[token] for token in spoken)
        return Sample(tuple(tokens), text, state == ENDED)

    @cached_property
    def _counts(self) -> Ints:
        has_end = bool(self.vocabulary.ids(TokenClass.EOS))
        counts = self._lifting.counts_to_end()
        return counts if has_end else np.full_like(counts, UNKNOWN)

    def _candidates(self, state: int, *, finish: bool, budget: int | None) -> Allowed:
        if finish:
            return self.finishing(state)
        return self.allowed(state) if budget is None else self.within(state, budget)

    def _packed(self, state: int) -> Packed:
        return self._rows.of(state if self._is_open(state) else DEAD, lambda: self.allowed(state).tokens)

    def _is_open(self, state: int) -> bool:
        """Whether text may go on here.

        Errors: ValueError for a number that is no state of this guide.
        """
        if state in (DEAD, ENDED):
            return False
        if not 0 <= state < len(self.automaton):
            raise ValueError(f"{state} is no state of this guide")
        return True

    def _checked(self, logits: npt.ArrayLike) -> npt.NDArray[np.floating]:
        values = np.asarray(logits)
        if values.shape != (len(self.vocabulary),):
            raise ValueError(f"expected {len(self.vocabulary)} logits in one dimension, got shape {values.shape}")
        wrong = ~(values < np.inf)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValueError(f"the logit of token {at} is {values[at]}: only finite values and -inf are allowed")
        return values
