"""Preparation in the API process: everything about a constraint that can fail before the request is queued."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vllm.config import ModelConfig
from vllm.sampling_params import SamplingParams

from ninfer_vllm.compiler.lowering import LoweringCache
from ninfer_vllm.constraint import Frame, OutputConstraint
from ninfer_vllm.errors import ConflictingConstraint, NInferError
from ninfer_vllm.host.client_errors import as_client_error
from ninfer_vllm.host.frontend import Frontend, frontend_for
from ninfer_vllm.host.options import PluginOptions
from ninfer_vllm.host.payload import Payload
from ninfer_vllm.host.requests import CHAT_TURN, PAYLOAD_KEY, constraint_of, marker_params, refuse_conflicts
from ninfer_vllm.host.tokenizer import vocabulary_of
from ninfer_vllm.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vllm.v1.engine import EngineCoreRequest


_in_chat: ContextVar[bool] = ContextVar("ninfer_in_chat", default=False)
_continued: ContextVar[bool] = ContextVar("ninfer_continued", default=False)
_validation_off: ContextVar[bool] = ContextVar("ninfer_validation_off", default=False)


@contextmanager
def chat_turn(*, continued: bool) -> Iterator[None]:
    """Mark every request that is added inside as a chat turn; `continued` where it continues existing content."""
    with _set(_in_chat, value=True), _set(_continued, value=continued):
        yield


@contextmanager
def host_validation_off() -> Iterator[None]:
    """Keep the host from judging constraints inside: the preparer does."""
    with _set(_validation_off, value=True):
        yield


def host_validation_is_off() -> bool:
    """Whether the host's own validation is off right now."""
    return _validation_off.get()


@contextmanager
def _set(variable: ContextVar[bool], *, value: bool) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def eos_ids_of(model_config: ModelConfig, tokenizer: Any) -> tuple[int, ...]:
    """The ids at which the host ends a request: the tokenizer's EOS and those of the generation configuration."""
    listed = model_config.try_get_generation_config().get("eos_token_id")
    several = listed if isinstance(listed, list) else [] if listed is None else [listed]
    own = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return tuple(dict.fromkeys([*own, *several]))


class Preparer:
    """Prepares the constrained requests of one engine client; thread-safe."""

    def __init__(self, model_config: ModelConfig, tokenizer: Any, options: PluginOptions) -> None:
        self.options = options
        self._model_config = model_config
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._vocabulary: Vocabulary | None = None
        self._lowerings = LoweringCache(lambda: self.vocabulary)

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

    def check(self, params: SamplingParams) -> OutputConstraint | None:
        """The request's constraint, if it has one and nothing contradicts it.

        Errors: ConstraintError, as the host's client error too.
        """
        try:
            constraint = constraint_of(params, self.options.unknown_schema_keywords)
            if constraint is not None:
                refuse_conflicts(params, self.eos_ids)
                if _continued.get():
                    raise ConflictingConstraint("continue_final_message", "cannot be combined with a constraint yet")
        except NInferError as error:
            raise as_client_error(error) from None
        return constraint

    def lower(self, constraint: OutputConstraint) -> None:
        """Lower a constraint ahead of its request, for instance off the event loop (CMP-7).

        Errors: ConstraintError.
        """
        self._lowerings.lower(constraint)

    def attach(self, constraint: OutputConstraint | None, request: EngineCoreRequest) -> None:
        """Give the host's request the lowered grammar of the constraint that `check` found, if it found one.

        Errors: ConstraintError, as the host's client error too.
        """
        sent = request.sampling_params
        assert sent is not None
        extra = dict(sent.extra_args or {})
        in_chat = extra.pop(PAYLOAD_KEY, None) is CHAT_TURN or _in_chat.get()
        if constraint is not None:
            extra[PAYLOAD_KEY] = self._payload(constraint, request.prompt_token_ids or (), in_chat=in_chat).to_wire()
            sent.structured_outputs = marker_params()
        sent.extra_args = extra or None

    def _payload(self, constraint: OutputConstraint, prompt: Sequence[int], *, in_chat: bool) -> Payload:
        try:
            lowered = self._lowerings.lower(constraint)
            frame: Frame = self.frontend.start_frame(prompt) if in_chat else "content"
        except NInferError as error:
            raise as_client_error(error) from None
        return Payload.of(lowered, frame)
