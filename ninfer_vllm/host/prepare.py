"""Preparation in the API process: everything about a constraint that can fail before the request is queued."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vllm.config import ModelConfig
from vllm.sampling_params import SamplingParams

from ninfer_vllm.compiler.lowering import Lowered, LoweringCache, ToolPlan
from ninfer_vllm.constraint import Constraint, Frame, ToolConstraint
from ninfer_vllm.errors import ConflictingConstraint, NInferError
from ninfer_vllm.host.client_errors import as_client_error
from ninfer_vllm.host.continuation import ContinuationCheck, existing_of
from ninfer_vllm.host.events import OutputParser
from ninfer_vllm.host.frontend import Frontend, GenericFrontend, frontend_for, state_template
from ninfer_vllm.host.options import PluginOptions
from ninfer_vllm.host.payload import Payload
from ninfer_vllm.host.preparation_time import take_ahead, timed
from ninfer_vllm.host.reasoning_gate import ReasoningGate
from ninfer_vllm.host.requests import CHAT_TURN, PAYLOAD_KEY, constraint_of, marker_params, refuse_conflicts
from ninfer_vllm.host.tokenizer import vocabulary_of
from ninfer_vllm.host.turns import ChatTurn, Continued
from ninfer_vllm.session.existing import Existing
from ninfer_vllm.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm.v1.engine import EngineCoreRequest


_validation_off: ContextVar[bool] = ContextVar("ninfer_validation_off", default=False)


@contextmanager
def host_validation_off() -> Iterator[None]:
    """Keep the host from judging constraints inside: the preparer does."""
    token = _validation_off.set(True)
    try:
        yield
    finally:
        _validation_off.reset(token)


def host_validation_is_off() -> bool:
    """Whether the host's own validation is off right now."""
    return _validation_off.get()


def eos_ids_of(model_config: ModelConfig, tokenizer: Any) -> tuple[int, ...]:
    """The ids at which the host ends a request: the tokenizer's EOS and those of the generation configuration."""
    listed = model_config.try_get_generation_config().get("eos_token_id")
    several = listed if isinstance(listed, list) else [] if listed is None else [listed]
    own = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return tuple(dict.fromkeys([*own, *several]))


class Preparer:
    """Prepares the constrained requests of one engine client; thread-safe."""

    def __init__(
        self, model_config: ModelConfig, tokenizer: Any, options: PluginOptions, gate: ReasoningGate | None = None
    ) -> None:
        """`gate` is the host's own reasoning parser, where one is chosen; models of no known family need it."""
        self.options = options
        self._gate = gate
        self._model_config = model_config
        self._tokenizer = tokenizer
        state_template(tokenizer, options.chat_template)
        self._lock = threading.Lock()
        self._vocabulary: Vocabulary | None = None
        self._lowerings = LoweringCache(lambda: self.vocabulary, self._read_tools)
        self._continuations = ContinuationCheck(
            options.engine, lambda: self.vocabulary, options.grammar_compile_timeout
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """The token domain; adapted on the first constrained request that needs it (TOK-6)."""
        with self._lock:
            if self._vocabulary is None:
                self._vocabulary = vocabulary_of(self._tokenizer, self._model_config.get_vocab_size(), self.eos_ids)
            return self._vocabulary

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        """The model's end tokens."""
        return eos_ids_of(self._model_config, self._tokenizer)

    @cached_property
    def frontend(self) -> Frontend:
        """The model family's frontend."""
        return frontend_for(self._tokenizer)

    @cached_property
    def knows_tools(self) -> bool:
        """Whether tool calls of this model can be constrained and read."""
        stated = self.frontend.dialect is not None or self.options.tool_dialect != "auto"
        return self.frontend.tool_ids is not None and stated

    def check(self, params: SamplingParams) -> Constraint | None:
        """The request's constraint, if it has one and nothing contradicts it.

        Errors: ConstraintError, as the host's client error too.
        """
        with clients_fault():
            constraint = constraint_of(params, self.options.unknown_schema_keywords)
            if constraint is not None:
                refuse_conflicts(params, self.eos_ids)
        if (
            isinstance(constraint, ToolConstraint)
            and constraint.dialect is None
            and self.options.tool_dialect != "auto"
        ):
            return replace(constraint, dialect=self.options.tool_dialect)
        return constraint

    def lower(self, constraint: Constraint) -> Lowered | None:
        """Lower a constraint ahead of its request, for instance off the event loop (CMP-7).

        The result is None where the constraint leaves the request free (TOOL-2).

        Errors: ConstraintError.
        """
        return self._lowerings.lower(constraint)

    def existing(self, constraint: Constraint, continued: Continued) -> Existing:
        """The content that a continued turn holds already, if it is a prefix of the constraint's language.

        Errors: ConstraintError.
        """
        existing = existing_of(constraint, continued, self.frontend, self._encode, self.spell)
        lowered = self.lower(constraint)
        if lowered is not None:
            self._continuations.require_prefix(lowered, existing)
        return existing

    def attach(
        self,
        constraint: Constraint | None,
        request: EngineCoreRequest,
        turn: ChatTurn | None = None,
        budget: int | None = None,
    ) -> None:
        """Give the host's request the lowered grammar of the constraint that `check` found, if it found one.

        `turn` is what rendering noted of a chat turn; `budget` bounds the tokens of its thinking block.

        Errors: ConstraintError, as the host's client error too.
        """
        sent = request.sampling_params
        assert sent is not None
        extra = dict(sent.extra_args or {})
        marked = extra.pop(PAYLOAD_KEY, None) is CHAT_TURN
        if marked and turn is None:
            turn = ChatTurn()
        payload, seconds = None, 0.0
        if constraint is not None:
            with clients_fault():
                payload, seconds = timed(self._payload, constraint, request.prompt_token_ids or (), turn, budget)
            sent.structured_outputs = None if payload is None else marker_params()
        if payload is not None:
            extra[PAYLOAD_KEY] = replace(payload, seconds=take_ahead() + seconds).to_wire()
        sent.extra_args = extra or None

    def parser(self, prompt: Sequence[int], tools: ToolConstraint | None, existing: Existing = ()) -> OutputParser:
        """A parser of one output behind a rendered prompt; what it publishes begins behind existing content."""
        frame: Frame = "content" if existing else self.frontend.start_frame(prompt)
        parser = self.frontend.output_parser(tools, frame, lambda token: self.vocabulary.spellings[token])
        for part in existing:
            parser.feed((part,)) if isinstance(part, int) else parser.feed_bytes(part)
        return parser

    def spell(self, token: int) -> str:
        """The visible text of a control token."""
        text: str = self._tokenizer.convert_ids_to_tokens(token)
        return text

    def _payload(
        self, constraint: Constraint, prompt: Sequence[int], turn: ChatTurn | None, budget: int | None
    ) -> Payload | None:
        lowered = self.lower(constraint)
        if lowered is None:
            return None
        existing: Existing = ()
        frame: Frame = "content"
        if turn is not None and turn.find_continued is not None:
            existing = self.existing(constraint, turn.find_continued())
        elif turn is not None:
            frame = self.frontend.start_frame(prompt)
            if self._gate is not None and self.frontend.name == GenericFrontend.name:
                return replace(Payload.of(lowered, frame, budget), gate=self._gate.tokens(prompt))
        if budget is not None and frame != "content" and not self._has_line_break:
            raise ConflictingConstraint("thinking_token_budget", "this vocabulary has no token for one line break")
        return Payload.of(lowered, frame, budget, existing)

    @cached_property
    def _has_line_break(self) -> bool:
        return b"\n" in self.vocabulary.spellings

    def _read_tools(self, tools: ToolConstraint) -> ToolPlan:
        return self.frontend.read_tools(tools)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


@contextmanager
def clients_fault() -> Iterator[None]:
    """Let our errors pass as the host's client errors too, so that they are never wrapped as server faults."""
    try:
        yield
    except NInferError as error:
        raise as_client_error(error) from None
