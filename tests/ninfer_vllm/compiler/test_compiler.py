"""The compiler: one build a key, two at once, failures leave nothing behind, hits take no slot."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest

from ninfer_vllm import limits
from ninfer_vllm.compiler.compiler import Compiled, Compiler
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.protocol import CompiledGrammar
from ninfer_vllm.engines.xgrammar import XgrammarEngine
from ninfer_vllm.errors import CompileFailed, NInferError, Unsatisfiable
from ninfer_vllm.grammar.ir import ExcludeToken, Grammar
from ninfer_vllm.grammar.wire import encode
from ninfer_vllm.languages.lowering import lower
from tests.support.vocabularies import FIRST_MULTI, MULTI, byte_vocabulary

VOCABULARY = byte_vocabulary()
REAL = XgrammarEngine(VOCABULARY)


class GatedEngine:
    """The real engine behind a gate, so that a test decides when builds end."""

    name = "xgrammar"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.running = 0
        self.most = 0
        self.builds = 0
        self._lock = threading.Lock()

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        with self._lock:
            self.running += 1
            self.builds += 1
            self.most = max(self.most, self.running)
        self.gate.wait(10)
        with self._lock:
            self.running -= 1
        return REAL.compile(grammar)


def wire(*literals: str) -> bytes:
    return encode(lower(OutputConstraint.choice(literals)))


def wait_for(future: Future[Compiled]) -> Compiled:
    return future.result(timeout=20)


@pytest.mark.contract("CMP-3", "CMP-4")
def test_equal_keys_share_one_build_and_say_so() -> None:
    engine = GatedEngine()
    compiler = Compiler(engine, len(VOCABULARY))
    futures = [compiler.submit("k", wire("a"), "content") for _ in range(5)]
    engine.gate.set()
    assert [wait_for(future).cache for future in futures] == ["built", *["waited"] * 4]
    assert wait_for(compiler.submit("k", wire("a"), "content")).cache == "hit"
    assert engine.builds == 1
    assert len({id(wait_for(future).grammar) for future in futures}) == 1


@pytest.mark.contract("CMP-4")
def test_two_cold_builds_run_at_once_and_a_hit_takes_no_slot() -> None:
    engine = GatedEngine()
    compiler = Compiler(engine, len(VOCABULARY))
    engine.gate.set()
    wait_for(compiler.submit("warm", wire("w"), "content"))
    engine.gate.clear()
    cold = [compiler.submit(f"cold{number}", wire(f"c{number}"), "content") for number in range(5)]
    assert wait_for(compiler.submit("warm", wire("w"), "content")).cache == "hit"
    deadline = time.monotonic() + 10
    while engine.running < limits.COLD_BUILDS and time.monotonic() < deadline:
        time.sleep(0.001)
    engine.gate.set()
    for future in cold:
        wait_for(future)
    assert engine.most == limits.COLD_BUILDS == 2


@pytest.mark.contract("CMP-8", "CMP-10")
def test_refused_build_fails_its_requests_frees_its_slot_and_is_not_cached() -> None:
    compiler = Compiler(REAL, len(VOCABULARY))
    ordinary = frozenset(range(256)) | frozenset(range(FIRST_MULTI, FIRST_MULTI + len(MULTI)))
    dead = encode(Grammar({"root": ExcludeToken(ordinary)}, "root"))
    for _ in range(4):
        with pytest.raises(Unsatisfiable):
            wait_for(compiler.submit("dead", dead, "content"))
    assert wait_for(compiler.submit("live", wire("a"), "content")).cache == "built"


@pytest.mark.contract("ERR-3", "CMP-8")
def test_failing_engine_is_reported_as_ours_not_as_a_schema_error() -> None:
    class Broken(GatedEngine):
        def compile(self, grammar: Grammar) -> CompiledGrammar:
            raise RuntimeError("core dumped its thoughts")

    with pytest.raises(CompileFailed, match="core dumped") as failure:
        wait_for(Compiler(Broken(), len(VOCABULARY)).submit("k", wire("a"), "content"))
    assert failure.value.status >= 500
    assert isinstance(failure.value, NInferError)


@pytest.mark.contract("CMP-2")
def test_framing_is_part_of_the_key() -> None:
    compiler = Compiler(REAL, len(VOCABULARY))
    content = wait_for(compiler.submit("k", wire("a"), "content")).grammar.matcher()
    thinking = wait_for(compiler.submit("k", wire("a"), "thinking")).grammar.matcher()
    assert content.accept(ord("a"))
    assert not thinking.accept(ord("a"))
    assert thinking.accept(10)


@pytest.mark.contract("CMP-1", "CMP-6")
def test_cache_evicts_the_least_recently_used_and_objects_in_use_survive() -> None:
    size = wait_for(Compiler(REAL, len(VOCABULARY)).submit("x", wire("x0"), "content")).grammar.nbytes
    compiler = Compiler(REAL, len(VOCABULARY), cache_bytes=int(size * 2.5))
    first = wait_for(compiler.submit("0", wire("x0"), "content"))
    matcher = first.grammar.matcher()
    wait_for(compiler.submit("1", wire("x1"), "content"))
    assert wait_for(compiler.submit("0", wire("x0"), "content")).cache == "hit"
    wait_for(compiler.submit("2", wire("x2"), "content"))
    assert wait_for(compiler.submit("0", wire("x0"), "content")).cache == "hit", "recently used"
    assert wait_for(compiler.submit("1", wire("x1"), "content")).cache == "built", "evicted"
    assert matcher.accept(ord("x"))
    assert matcher.accept(ord("0"))
