"""`Compiler`: lowered grammars to compiled ones, cached, single flight, at most two cold builds at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ninfer_vllm import limits
from ninfer_vllm.compiler.cache import CompiledCache
from ninfer_vllm.compiler.observed import Observed
from ninfer_vllm.constraint import Frame
from ninfer_vllm.engines.protocol import CompiledGrammar, Engine
from ninfer_vllm.errors import CompileFailed, NInferError, Unsatisfiable
from ninfer_vllm.grammar.framing import framed
from ninfer_vllm.grammar.wire import decode
from ninfer_vllm.masks.bits import empty_row
from ninfer_vllm.record import CacheOutcome


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled grammar and how this request came by it (CMP-3)."""

    grammar: CompiledGrammar
    cache: CacheOutcome


class Compiler:
    """Compiles for one engine; thread-safe.

    A hit takes no build slot. A build that fails fails the requests that wait for it, frees its slot and leaves the
    cache as it was (CMP-8); the next request for the key builds anew.
    """

    def __init__(self, engine: Engine, tokens: int, *, cache_bytes: int = limits.GRAMMAR_CACHE_BYTES) -> None:
        self.engine = engine
        self._tokens = tokens
        self._lock = threading.Lock()
        self._cache = CompiledCache(cache_bytes)
        self._observed = Observed()
        self._building: dict[str, Future[CompiledGrammar]] = {}
        self._slots = ThreadPoolExecutor(limits.COLD_BUILDS, thread_name_prefix="ninfer-compile")

    def submit(self, key: str, grammar: bytes, frame: Frame) -> Future[Compiled]:
        """The compiled form of a lowered grammar, in its wire form, behind an output frame.

        The future raises LimitExceeded, Unsatisfiable (no token is legal at the start, CMP-10) or CompileFailed.
        """
        answer: Future[Compiled] = Future()
        key = f"{key}:{frame}"
        with self._lock:
            hit = self._cache.get(key)
            if hit is not None:
                self._observed.note("hit")
                answer.set_result(Compiled(hit, "hit"))
                return answer
            build = self._building.get(key)
            outcome: CacheOutcome = "built" if build is None else "waited"
            self._observed.note(outcome)
            if build is None:
                build = self._building[key] = self._slots.submit(self._build, key, grammar, frame)
        build.add_done_callback(lambda done: _hand_over(done, answer, outcome))
        return answer

    def observed(self) -> Observed:
        """What happened since the last call."""
        with self._lock:
            seen, self._observed = self._observed, Observed()
        return seen

    def close(self) -> None:
        """Stop taking builds and let go of what is cached; running builds end on their own."""
        self._slots.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._cache.clear()

    def _build(self, key: str, data: bytes, frame: Frame) -> CompiledGrammar:
        started = time.perf_counter()
        try:
            compiled = self._compile(data, frame)
        except BaseException:
            with self._lock:
                self._building.pop(key, None)
                self._observed.build_s.append(time.perf_counter() - started)
            raise
        with self._lock:
            self._building.pop(key, None)
            self._observed.build_s.append(time.perf_counter() - started)
            evicted, held = self._cache.evictions, self._cache.nbytes
            self._cache.put(key, compiled)
            self._observed.evictions += self._cache.evictions - evicted
            self._observed.bytes_change += self._cache.nbytes - held
        return compiled

    def _compile(self, data: bytes, frame: Frame) -> CompiledGrammar:
        try:
            compiled = self.engine.compile(framed(decode(data), frame))
            matcher = compiled.matcher()
            satisfiable = matcher.fill(empty_row(self._tokens)) or matcher.complete
        except NInferError:
            raise
        except Exception as fault:
            raise CompileFailed(f"{type(fault).__name__}: {fault}") from fault
        if not satisfiable:
            raise Unsatisfiable("no token of this model's vocabulary can start the output")
        return compiled


def _hand_over(build: Future[CompiledGrammar], answer: Future[Compiled], outcome: CacheOutcome) -> None:
    if build.cancelled():
        answer.set_exception(CompileFailed("the engine is shutting down"))
        return
    fault = build.exception()
    if fault is not None:
        answer.set_exception(fault)
    else:
        answer.set_result(Compiled(build.result(), outcome))
