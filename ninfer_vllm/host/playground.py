"""What the playground shows: token by token the legal set, the state, the distance and the failing byte (GDE-12)."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ninfer_vllm.compiler.compiler import Compiler
from ninfer_vllm.compiler.lowering import Lowered
from ninfer_vllm.constraint import Constraint
from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.engines.selection import engine_for
from ninfer_vllm.errors import ConflictingConstraint, ConstraintError
from ninfer_vllm.grammar.ir import ExcludeToken, Token
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.grammar.wire import decode
from ninfer_vllm.guide import DEAD, Guide
from ninfer_vllm.host.prepare import Preparer
from ninfer_vllm.masks.bits import MaskRow, as_bools, empty_row, is_legal
from ninfer_vllm.vocabulary import TokenClass

MAX_TEXT = 4_096
"""Characters of a text to walk along."""

SHOWN = 60
"""Legal tokens that are listed of a set; all of them are counted."""

SAMPLE_BYTES = 120
CACHE_BYTES = 64 << 20
GUIDES = 4
"""Guides that are kept: one is tens of mebibytes with a large vocabulary."""


@dataclass(frozen=True, slots=True)
class Distances:
    """The guide of a constraint, or why it has none."""

    guide: Guide | None
    reason: str = ""


class Playground:
    """Answers of one API server's playground; used by one thread at a time."""

    def __init__(self, preparer: Preparer, tokenizer: Any) -> None:
        self._preparer = preparer
        self._tokenizer = tokenizer
        self._guides: OrderedDict[str, Distances] = OrderedDict()

    @cached_property
    def _compiler(self) -> Compiler:
        options, vocabulary = self._preparer.options, self._preparer.vocabulary
        engine = engine_for(options.engine, vocabulary, timeout_s=options.grammar_compile_timeout)
        return Compiler(engine, len(vocabulary), cache_bytes=CACHE_BYTES)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        return self._preparer.vocabulary.ids(TokenClass.EOS)

    def walk(self, constraint: Constraint, text: str) -> dict[str, Any]:
        """One step a token of the text, and one behind it; the walk ends at the first illegal token.

        Errors: ConstraintError where the constraint is refused.
        """
        lowered = self._lowered(constraint)
        matcher = self._compiler.submit(lowered.key, lowered.grammar, "content").result().grammar.matcher()
        distances = self._distances(lowered)
        state = None if distances.guide is None else distances.guide.start
        steps: list[dict[str, Any]] = []
        offset = 0
        failing: dict[str, Any] | None = None
        for token in self._tokens(text):
            step, legal = self._step(matcher, distances.guide, state, token)
            steps.append({**step, "offset": offset})
            if not legal:
                failing = self._failing(matcher, token, offset)
                break
            matcher.accept(token)
            state = None if distances.guide is None or state is None else distances.guide.step(state, token)
            offset += len(self._preparer.vocabulary.spellings[token])
        if failing is None:
            steps.append({**self._step(matcher, distances.guide, state, None)[0], "offset": offset})
        return {
            "kind": constraint.kind,
            "supported": True,
            "problems": [],
            "steps": steps,
            "failing": failing,
            "complete": failing is None and matcher.complete,
            "no_distance": distances.reason or None,
        }

    def sample(self, constraint: Constraint, seed: int) -> str:
        """A random text of the language.

        Errors: ConstraintError where the constraint is refused.
        """
        rng = random.Random(seed)
        text = sample(
            decode(self._lowered(constraint).grammar), rng, SAMPLE_BYTES, lambda node: self._spelled(node, rng)
        )
        return text.decode(errors="replace")

    def _lowered(self, constraint: Constraint) -> Lowered:
        lowered = self._preparer.lower(constraint)
        if lowered is None:
            raise ConflictingConstraint("tools", "these tools leave the output free: nothing is enforced")
        return lowered

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _step(
        self, matcher: Matcher, guide: Guide | None, state: int | None, token: int | None
    ) -> tuple[dict[str, Any], bool]:
        """What is legal before a token, and whether the token is."""
        size = len(self._preparer.vocabulary)
        row = empty_row(size)
        matcher.fill(row)
        ids = np.flatnonzero(as_bools(row, size))
        known = guide is not None and state is not None and state != DEAD
        facts = {
            "token": None if token is None else self._shown(token),
            "num_legal": len(ids),
            "legal": [self._shown(legal) for legal in self._first(ids[:SHOWN].tolist(), row)],
            "complete": matcher.complete,
            "state": state if known else None,
            "distance": guide.distance(state) if known and guide is not None and state is not None else None,
        }
        return facts, token is not None and is_legal(row, token)

    def _first(self, ids: list[int], row: MaskRow) -> list[int]:
        """The legal tokens that are listed: those that end the text, then by id."""
        return list(dict.fromkeys([*(token for token in self._ends if is_legal(row, token)), *ids]))[:SHOWN]

    def _shown(self, token: int) -> dict[str, Any]:
        vocabulary = self._preparer.vocabulary
        return {
            "id": token,
            "text": vocabulary.spellings[token].decode(errors="backslashreplace"),
            "is_end": vocabulary.class_of(token) == TokenClass.EOS,
        }

    def _failing(self, matcher: Matcher, token: int, offset: int) -> dict[str, Any]:
        """The first byte that cannot follow, where the text's own bytes are at fault."""
        spelling = self._preparer.vocabulary.spellings[token]
        at = matcher.accept_bytes(spelling) if spelling else 0
        return {
            "offset": offset + at,
            "byte": spelling[at] if at < len(spelling) else None,
            "token": self._shown(token),
        }

    def _distances(self, lowered: Lowered) -> Distances:
        found = self._guides.pop(lowered.key, None)
        if found is None:
            try:
                found = Distances(Guide(decode(lowered.grammar), self._preparer.vocabulary))
            except ConstraintError as refusal:
                found = Distances(None, str(refusal))
        self._guides[lowered.key] = found
        if len(self._guides) > GUIDES:
            self._guides.popitem(last=False)
        return found

    def _spelled(self, node: Token | ExcludeToken, rng: random.Random) -> bytes:
        vocabulary = self._preparer.vocabulary
        if isinstance(node, Token):
            return vocabulary.spellings[rng.choice(sorted(node.ids))]
        ordinary = vocabulary.ids(TokenClass.ORDINARY)
        texts = (vocabulary.spellings[rng.choice(ordinary)] for _ in range(len(ordinary)))
        return next(text for text in texts if text.isascii() and text.decode().isprintable())
