"""The structured-output manager of the engine core: opens sessions, computes masks, commits tokens."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from ninfer_vllm.compiler.compiler import Compiled, Compiler
from ninfer_vllm.compiler.observed import Observed
from ninfer_vllm.compiler.warming import warm_up
from ninfer_vllm.engines.selection import engine_for
from ninfer_vllm.errors import CompileFailed, MatcherInconsistency, NInferError
from ninfer_vllm.host.frontend import frontend_for, state_template
from ninfer_vllm.host.grammar import SessionGrammar
from ninfer_vllm.host.host_version import FIXED_MASK_STRIDE
from ninfer_vllm.host.options import PluginOptions
from ninfer_vllm.host.payload import Payload
from ninfer_vllm.host.prepare import eos_ids_of
from ninfer_vllm.host.requests import PAYLOAD_KEY
from ninfer_vllm.host.tokenizer import vocabulary_of
from ninfer_vllm.masks.bits import words_for
from ninfer_vllm.masks.rows import StepRows
from ninfer_vllm.session.lookahead import FILLER
from ninfer_vllm.session.phases import ThinkingRules
from ninfer_vllm.session.session import OutputSession
from ninfer_vllm.vocabulary import Vocabulary

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.config import VllmConfig
    from vllm.v1.request import Request


class SessionManager(StructuredOutputManager):
    """Owns the compiler, the live sessions and the mask buffer of one engine core."""

    def __init__(self, vllm_config: VllmConfig, options: PluginOptions) -> None:
        super().__init__(vllm_config)
        self.options = options
        # The host leaves the tokenizer out where it is told to start without one.
        state_template(getattr(self, "tokenizer", None), options.chat_template)
        self.sessions: dict[str, OutputSession] = {}
        self.released: dict[str, tuple[OutputSession, int]] = {}
        """Sessions that ended since the last step's outputs were published, and the API servers they belong to."""
        self.step_rows: dict[str, StepRows] = {}
        """Rows of the masks shipped last, until the step's output comes back."""
        self.step_faults: dict[str, NInferError] = {}
        """Requests whose masks could not be computed in this step."""
        self.mask_calls = 0
        self._gate: ThinkingRules | None = None
        self._width = words_for(vllm_config.model_config.get_vocab_size())
        self._stride = 1 + vllm_config.num_speculative_tokens
        self._rows = vllm_config.scheduler_config.max_num_seqs * self._stride
        self._mask_buffer: npt.NDArray[np.int32] | None = None
        self._scratch_row: npt.NDArray[np.int32] = np.zeros(self._width, np.int32)
        self._building_once = threading.Lock()
        """Held around the first use of what is built once an engine: several threads compile."""

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The token domain; adapted on the first constrained request (TOK-6)."""
        model_config = self.vllm_config.model_config
        return vocabulary_of(self.tokenizer, model_config.get_vocab_size(), eos_ids_of(model_config, self.tokenizer))

    @cached_property
    def compiler(self) -> Compiler:
        """The compiler over this model's vocabulary."""
        engine = engine_for(self.options.engine, self.vocabulary, timeout_s=self.options.grammar_compile_timeout)
        if self.options.engine == "native":
            warm_up(engine, len(self.vocabulary))
        return Compiler(engine, len(self.vocabulary), cache_bytes=self.options.grammar_cache_bytes)

    @cached_property
    def thinking_rules(self) -> ThinkingRules | None:
        """Fixed rows of the thinking phase, for a model that has one."""
        ids = frontend_for(self.tokenizer).thinking_ids
        return None if ids is None else ThinkingRules.of(self.vocabulary, *ids)

    def _gate_rules(self, open_id: int | None, close_id: int) -> ThinkingRules:
        """Fixed rows of reasoning that the host's own parser reads; one server has one such parser."""
        if self._gate is None:
            self._gate = ThinkingRules.of_gate(self.vocabulary, open_id, close_id)
        return self._gate

    def grammar_init(self, request: Request) -> None:
        """Start compiling; the request waits in the host's waiting-for-grammar state meanwhile."""
        structured = request.structured_output_request
        if structured is None:
            return
        ready: Future[StructuredOutputGrammar] = Future()
        structured.grammar = ready
        try:
            payload = Payload.from_wire((params_of(request).extra_args or {}).get(PAYLOAD_KEY))
        except NInferError as fault:
            ready.set_exception(fault)
            return
        session = OutputSession(
            payload.kind,
            self.options.engine,
            payload.frame,
            existing=payload.existing,
            budget=payload.budget,
            tool_id=payload.tool_id,
            timings=self.options.constraint_timings,
        )
        session.prepared(payload.seconds)
        # Before any thread works on it, so that a request cancelled right away finds its session to end.
        self.sessions[request.request_id] = session
        self.executor.submit(self._compile, payload, session, ready)

    def _compile(self, payload: Payload, session: OutputSession, ready: Future[StructuredOutputGrammar]) -> None:
        try:
            with self._building_once:
                compiler = self.compiler
            compiled = compiler.submit(payload.key, payload.grammar, payload.frame)
        except BaseException as fault:
            ready.set_exception(fault)
            return
        compiled.add_done_callback(lambda done: self._attach(session, payload.gate, done, ready))

    def _attach(
        self,
        session: OutputSession,
        gate: tuple[int | None, int] | None,
        done: Future[Compiled],
        ready: Future[StructuredOutputGrammar],
    ) -> None:
        try:
            compiled = done.result()
            with self._building_once:
                rules = None if session.frame == "content" else self.thinking_rules
                if gate is not None:
                    rules = self._gate_rules(*gate)
            session.attach(compiled.grammar, compiled.cache, rules)
        except BaseException as fault:
            ready.set_exception(fault)
        else:
            ready.set_result(SessionGrammar(session))

    def compiler_observed(self) -> Observed:
        """What the compiler did since the last call; nothing before it was first used."""
        return self.compiler.observed() if "compiler" in self.__dict__ else Observed()

    def validate_tokens(self, request: Request, spec_tokens: list[int]) -> list[int]:
        """All drafts, illegal ones included (SPC-3): the masked target rejects them.

        With grammar drafts, what is forced comes before what was proposed against it (SPC-10).
        """
        session = self.sessions.get(request.request_id) if self.options.grammar_drafts else None
        if session is None:
            return spec_tokens
        try:
            forced = session.forced(self.vocabulary.spellings, self._stride - 1, self._scratch_row)
        except NInferError:
            # The step's own look at the grammar meets it again, and fails the row.
            return spec_tokens
        return spec_tokens if tuple(spec_tokens[: len(forced)]) == forced else list(forced)

    def grammar_bitmask(
        self,
        requests: dict[str, Request],
        structured_output_request_ids: list[str],
        scheduled_spec_decode_tokens: dict[str, list[int]],
    ) -> npt.NDArray[np.int32] | None:
        """Mask rows of the constrained requests of one step: len(drafts) + 1 a request, in the host's layout."""
        if not structured_output_request_ids:
            return None
        self.mask_calls += 1
        buffer = self._buffer()
        used = 0
        for request_id in structured_output_request_ids:
            drafts = scheduled_spec_decode_tokens.get(request_id, [])
            rows = [buffer[used + at] for at in range(len(drafts) + 1)]
            self._look_ahead(requests[request_id], drafts, rows)
            used += self._stride if FIXED_MASK_STRIDE else len(rows)
        return buffer[:used]

    def _look_ahead(self, request: Request, drafts: list[int], rows: list[npt.NDArray[np.int32]]) -> None:
        """Fill one request's rows; a fault of its matcher is that request's alone (ERR-6)."""
        try:
            self.step_rows[request.request_id] = grammar_of(request).session.look_ahead(drafts, rows)
        except Exception as fault:
            for row in rows:
                row[:] = FILLER
            self.step_faults[request.request_id] = as_fault(fault)

    def accept_tokens(self, request: Request, new_token_ids: list[int]) -> bool:
        """Commit the tokens the scheduler kept of the preview."""
        if not request.use_structured_output or not new_token_ids:
            return True
        return grammar_of(request).accept_tokens(request.request_id, new_token_ids)

    def release(self, request_id: str, client_index: int) -> None:
        """End a session with its request; the compiled grammar may stay cached (ENG-4)."""
        self.step_rows.pop(request_id, None)
        self.step_faults.pop(request_id, None)
        session = self.sessions.pop(request_id, None)
        if session is not None:
            session.finish()
            self.released[request_id] = session, client_index

    def clear_backend(self) -> None:
        """End every session and stop compiling before the host stops."""
        for request_id in list(self.sessions):
            self.release(request_id, 0)
        self.released.clear()
        if "compiler" in self.__dict__:
            self.compiler.close()
            self.compiler.engine.close()
        super().clear_backend()

    def _buffer(self) -> npt.NDArray[np.int32]:
        if self._mask_buffer is None:
            self._mask_buffer = np.empty((self._rows, self._width), dtype=np.int32)
        return self._mask_buffer


def grammar_of(request: Request) -> SessionGrammar:
    """The grammar object of a constrained request that is ready."""
    structured = request.structured_output_request
    grammar: Any = None if structured is None else structured.grammar
    if not isinstance(grammar, SessionGrammar):
        raise MatcherInconsistency(f"request {request.request_id} has no session")
    return grammar


def params_of(request: Request) -> SamplingParams:
    """The sampling parameters of a generating request."""
    assert request.sampling_params is not None
    return request.sampling_params


def compile_fault_of(request: Request) -> NInferError:
    """Why a request's grammar could not be compiled."""
    structured = request.structured_output_request
    grammar: Any = None if structured is None else structured.grammar
    return as_fault(grammar)


def as_fault(fault: object) -> NInferError:
    """A typed error for whatever went wrong inside the engine."""
    return fault if isinstance(fault, NInferError) else CompileFailed(f"{type(fault).__name__}: {fault}")
