"""`Probe`: what a constraint allows, over a real token domain and through the code that serves requests."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from ninfer_vllm.compiler.compiler import Compiled, Compiler
from ninfer_vllm.compiler.lowering import Lowered, LoweringCache
from ninfer_vllm.constraint import Constraint, Dialect, Frame, OutputConstraint
from ninfer_vllm.engines.protocol import EngineName, Matcher
from ninfer_vllm.engines.selection import engine_for
from ninfer_vllm.errors import ConflictingConstraint, InvalidContinuation, InvalidOption
from ninfer_vllm.grammar.framing import framed
from ninfer_vllm.grammar.ir import ExcludeToken, Grammar, Token, walk
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.grammar.wire import decode
from ninfer_vllm.masks.bits import as_bools, empty_row
from ninfer_vllm.session.phases import PhasedMatcher, ThinkingRules
from ninfer_vllm.session.session import OutputSession
from ninfer_vllm.testing.domain import domain_of
from ninfer_vllm.testing.reading import Reader
from ninfer_vllm.testing.token_readings import Reading
from ninfer_vllm.testing.tool_readings import Markers
from ninfer_vllm.testing.walk import WalkTimings, walk_on
from ninfer_vllm.vocabulary import TokenClass

Text = str | bytes

SAMPLE_BYTES = 200
"""About how long a sample grows before it steers to an end."""

WARM_UP = OutputConstraint.choice(["warm-up"])
ANY_TEXT = OutputConstraint.regex(r"[^]*")
"""What an output is where nothing of its tools is enforced."""


class Probe:
    """Asks constraints questions, without vLLM, an engine or a model.

    `tokenizer` is a tokenizer folder, a fast Hugging Face tokenizer, a `tokenizers.Tokenizer`, or `embedded` or
    `embedded-qwen` for the tokenizers of the embedded models. End tokens are the tokenizer's own, those of a
    `generation_config.json` in its folder, and `eos_ids`; a `tokenizers.Tokenizer` has none of its own.

    Every question takes `frame`, where the text starts (THK-2): in a frame with thinking, `<think>` and `</think>` in a
    text stand for the control tokens; under a `ToolConstraint` so do `<tool_call>` and `</tool_call>` wherever those
    tokens are legal. Results are cached as in serving. Refusals raise the same errors as serving.

    Errors: UnsupportedTokenizer; InvalidOption for an engine that this version does not have.
    """

    def __init__(self, tokenizer: Any, *, engine: EngineName = "native", eos_ids: Iterable[int] = ()) -> None:
        if engine not in get_args(EngineName):
            raise InvalidOption("engine", f"{engine!r} (engines: {', '.join(get_args(EngineName))})")
        self._domain = domain_of(tokenizer, eos_ids)
        self.vocabulary = self._domain.vocabulary
        self._reader = Reader(self.vocabulary, self._domain.frontend.thinking_ids)
        self._lowerings = LoweringCache(lambda: self.vocabulary, self._domain.frontend.read_tools)
        self._engine = engine_for(engine, self.vocabulary)
        self._compiler = Compiler(self._engine, len(self.vocabulary))

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return self._domain.tokenizer

    @property
    def dialect(self) -> Dialect | None:
        """How the model writes tool calls, where its chat template shows it."""
        return self._domain.frontend.dialect

    def accepts(self, constraint: Constraint, text: Text, *, frame: Frame = "content") -> bool:
        """Whether the whole text is in the language, end included."""
        matcher, readings = self._read(constraint, text, frame)
        return any(reading.whole and matcher.complete for reading in readings)

    def is_prefix(self, constraint: Constraint, text: Text, *, frame: Frame = "content") -> bool:
        """Whether the text can still become one of the language, or is one."""
        _, readings = self._read(constraint, text, frame)
        return any(reading.legal for reading in readings)

    def mask(self, constraint: Constraint, prefix: Text = "", *, frame: Frame = "content") -> npt.NDArray[np.bool_]:
        """The legal tokens after a prefix: one entry for each of the model's V columns.

        Errors: InvalidContinuation if `prefix` is no prefix of the language.
        """
        matcher, readings = self._read(constraint, prefix, frame)
        reading = next(readings)
        if not reading.whole:
            raise InvalidContinuation("the text is no prefix of the language", reading.offset)
        row = empty_row(len(self.vocabulary))
        matcher.fill(row)
        return as_bools(row, len(self.vocabulary))

    def walk(self, constraint: Constraint, token_ids: Sequence[int], *, frame: Frame = "content") -> WalkTimings:
        """The times of a session along the tokens; on the first call for a constraint nothing of it is cached.

        Making the vocabulary known to the engine, once a probe, is not counted.

        Errors: InvalidContinuation at the first token that is not legal.
        """
        rules = self._rules_for(frame)
        self._compile(self._lowerings.lower(WARM_UP), "content")
        row = empty_row(len(self.vocabulary))
        session = OutputSession(constraint.kind, self._engine.name, frame)
        started = time.perf_counter_ns()
        compiled = self._compile(self._lowered(constraint), frame)
        session.attach(compiled.grammar, compiled.cache, rules)
        session.look_ahead((), (row,))
        first = time.perf_counter_ns() - started
        masks, accepts = walk_on(session, token_ids, row, self.vocabulary.spellings)
        return WalkTimings(first, masks, accepts)

    def lower(self, constraint: Constraint, *, frame: Frame = "content") -> Grammar:
        """The grammar the engine is given; in a frame with thinking, of everything behind the closed block."""
        self._rules_for(frame)
        return framed(decode(self._lowered(constraint).grammar), frame)

    def sample(self, constraint: Constraint, seed: int, *, frame: Frame = "content") -> str:
        """A random text of the language: the same for the same seed, independent of any model."""
        rng = random.Random(seed)
        text = sample(self.lower(constraint, frame=frame), rng, SAMPLE_BYTES, lambda node: self._spelled(node, rng))
        return (self._reasoning_of(frame) + text).decode()

    def close(self) -> None:
        """End the compile threads and processes; without it they end with the interpreter."""
        self._compiler.close()
        self._engine.close()

    def _read(self, constraint: Constraint, text: Text, frame: Frame) -> tuple[Matcher, Iterator[Reading]]:
        """A new matcher and the readings it makes of the text."""
        rules = self._rules_for(frame)
        lowered = self._lowered(constraint)
        body = self._compile(lowered, frame).grammar.matcher()
        matcher = body if rules is None else PhasedMatcher(body, rules, frame)
        # An unpaired surrogate becomes bytes that are no UTF-8, and so are in no language.
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        if lowered.kind == "tools":
            return matcher, self._reader.read(
                data, matcher, frame, self._markers(may_be_data=lowered.tool_id is not None)
            )
        terminals = _token_terminals(decode(lowered.grammar)) if lowered.kind == "grammar" else ()
        return matcher, self._reader.read(data, matcher, frame, terminals)

    def _markers(self, *, may_be_data: bool) -> Markers:
        ids = self._domain.frontend.tool_ids or ()
        return Markers({self.vocabulary.spellings[token]: token for token in ids}, may_be_data)

    def _lowered(self, constraint: Constraint) -> Lowered:
        """The lowered grammar; where nothing is enforced, that of any text."""
        return self._lowerings.lower(constraint) or self._lowerings.lower(ANY_TEXT)

    def _compile(self, lowered: Lowered, frame: Frame) -> Compiled:
        return self._compiler.submit(lowered.key, lowered.grammar, frame).result()

    def _rules_for(self, frame: Frame) -> ThinkingRules | None:
        if frame not in get_args(Frame):
            raise ConflictingConstraint("frame", f"{frame!r} is not one of {', '.join(get_args(Frame))}")
        if frame == "content":
            return None
        if self._thinking_rules is None:
            raise ConflictingConstraint("frame", f"{frame!r}: the model family of this tokenizer has no thinking block")
        return self._thinking_rules

    @cached_property
    def _thinking_rules(self) -> ThinkingRules | None:
        ids = self._domain.frontend.thinking_ids
        return None if ids is None else ThinkingRules.of(self.vocabulary, *ids)

    def _reasoning_of(self, frame: Frame) -> bytes:
        """The shortest reasoning that leads to the content."""
        ids = self._domain.frontend.thinking_ids
        if frame == "content" or ids is None:
            return b""
        opened, closed = (self.vocabulary.spellings[token] for token in ids)
        return closed if frame == "thinking" else opened + b"\n" + closed

    def _spelled(self, node: Token | ExcludeToken, rng: random.Random) -> bytes:
        """The spelling of a token that a token terminal allows and that is text of its own."""
        if isinstance(node, Token):
            return self.vocabulary.spellings[rng.choice(sorted(node.ids))]
        allowed = [token for token in self.vocabulary.ids(TokenClass.ORDINARY) if token not in node.ids]
        return next(spelling for spelling in self._shuffled(allowed, rng) if _is_text(spelling))

    def _shuffled(self, tokens: list[int], rng: random.Random) -> list[bytes]:
        rng.shuffle(tokens)
        return [self.vocabulary.spellings[token] for token in tokens]


def _token_terminals(grammar: Grammar) -> tuple[Token | ExcludeToken, ...]:
    nodes = (node for body in grammar.rules.values() for node in walk(body))
    return tuple(node for node in nodes if isinstance(node, Token | ExcludeToken))


def _is_text(spelling: bytes) -> bool:
    try:
        return bool(spelling.decode())
    except UnicodeDecodeError:
        return False
