"""Builds can be stopped and survived; compile processes are replaced and never outlive their engine."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ninfer_vllm.engines import isolation
from ninfer_vllm.engines.isolation import WorkerPool
from ninfer_vllm.errors import CompileFailed, LimitExceeded, NInferError, Unsatisfiable
from ninfer_vllm.grammar.ir import Alternation, Grammar, Rule, Sequence, optional, text
from ninfer_vllm.grammar.wire import encode
from tests.support.grammars import word_vocabulary

SMALL = encode(Grammar({"root": text("a")}, "root"))
# The core's time for a chain of names grows with the cube of its length.
CHAIN = {f"c{n}": Alternation((Rule(f"c{n + 1}"), text(f"x{n}"))) for n in range(4_000)}
ENDLESS = encode(Grammar({**CHAIN, "c4000": text("a")}, "c0"))


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(word_vocabulary(), size=2, timeout_s=60)
    yield pool
    pool.close()


def children() -> set[int]:
    """Compile processes of this process that still run."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z" and b"ninfer_vllm.engines.worker" in command:
            found.add(int(folder.name))
    return found


def outcome(pool: WorkerPool) -> object:
    """What a build without end comes to."""
    try:
        return pool.build(ENDLESS)
    except NInferError as error:
        return error


def new_child(before: set[int]) -> int:
    for _ in range(200):
        found = children() - before
        if found:
            return found.pop()
        time.sleep(0.05)
    raise AssertionError("no compile process appeared")


@pytest.mark.contract("CMP-9", "ERR-6")
def test_a_build_over_the_time_is_stopped_and_others_go_on() -> None:
    pool = WorkerPool(word_vocabulary(), size=2, timeout_s=1.5)
    pool.build(SMALL)
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.append(outcome(pool)))
    thread.start()
    served = 0
    while thread.is_alive():
        pool.build(SMALL)
        served += 1
    thread.join()
    assert outcomes == [LimitExceeded("grammar_compile_timeout", 1.5)]
    assert served > 3
    pool.build(SMALL)
    pool.close()


@pytest.mark.contract("CMP-8", "ERR-6")
def test_a_crash_fails_its_own_build_and_the_process_is_replaced(pool: WorkerPool) -> None:
    before = children()
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.append(outcome(pool)))
    thread.start()
    child = new_child(before)
    time.sleep(1)
    os.kill(child, signal.SIGSEGV)
    thread.join()
    assert outcomes == [CompileFailed("the compile process ended with SIGSEGV")]
    pool.build(SMALL)


def test_an_idle_process_that_died_is_replaced(pool: WorkerPool) -> None:
    before = children()
    pool.build(SMALL)
    child = new_child(before)
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    pool.build(SMALL)
    assert children() - before - {child}


@pytest.mark.contract("CMP-9")
def test_a_build_over_the_memory_is_refused_and_the_next_one_works() -> None:
    pool = WorkerPool(word_vocabulary(), size=1, timeout_s=60, memory_bytes=48 << 20)
    many = {f"r{n}": Sequence((text(f"{n}" * 20), optional(Rule(f"r{n + 1}")))) for n in range(20_000)}
    with pytest.raises(LimitExceeded) as caught:
        pool.build(encode(Grammar({**many, "r20000": text("a")}, "r0")))
    assert caught.value.limit == "compile_memory_bytes"
    pool.build(SMALL)
    pool.close()


@pytest.mark.contract("CMP-9", "ERR-6")
def test_a_process_ended_by_the_linker_for_want_of_memory_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(word_vocabulary(), size=1, memory_bytes=1 << 30)
    pool.build(SMALL)
    before = children()
    (worker,) = pool._idle
    command = "import sys; sys.stdin.buffer.read(1); sys.exit(127)"
    with monkeypatch.context() as patch:
        patch.setattr(isolation, "ENTRY", command)
        patch.setattr(isolation._Worker, "ask", lambda *_: None)
        broken = isolation._Worker(b"")
    worker.close()
    pool._idle[:] = [broken]
    with pytest.raises(LimitExceeded) as caught:
        pool.build(SMALL)
    assert (caught.value.limit, caught.value.allowed) == ("compile_memory_bytes", 1 << 30)
    pool.build(SMALL)
    assert children() - before
    pool.close()


def test_typed_errors_come_back_as_they_were(pool: WorkerPool) -> None:
    with pytest.raises(Unsatisfiable) as caught:
        pool.build(encode(Grammar({"root": Rule("root")}, "root")))
    assert caught.value == Unsatisfiable("the grammar derives no finite text")


@pytest.mark.contract("CMP-4")
def test_no_more_processes_than_the_pool_has_run_at_once(pool: WorkerPool) -> None:
    before = children()
    threads = [threading.Thread(target=pool.build, args=(SMALL,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(children() - before) <= 2


def test_processes_end_with_the_pool() -> None:
    pool = WorkerPool(word_vocabulary(), size=1)
    before = children()
    pool.build(SMALL)
    assert len(children() - before) == 1
    del pool
    assert children() <= before


def test_a_process_does_not_outlive_an_engine_that_is_killed() -> None:
    script = (
        "import os\n"
        "from ninfer_vllm.engines.isolation import WorkerPool\n"
        "from tests.support.grammars import word_vocabulary\n"
        "from tests.ninfer_vllm.engines.test_isolation import ENDLESS, SMALL, children\n"
        "import threading, time\n"
        "pool = WorkerPool(word_vocabulary(), size=1, timeout_s=600)\n"
        "pool.build(SMALL)\n"
        "threading.Thread(target=pool.build, args=(ENDLESS,), daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "print(*children(), flush=True)\n"
        "os._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    (child,) = map(int, done.stdout.split())
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{child}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{child}")


@pytest.mark.contract("ERR-6", "CMP-9")
def test_a_grammar_with_ever_more_readings_is_refused(pool: WorkerPool) -> None:
    many = Alternation((Sequence((Rule("s"),) * 3), Sequence((Rule("s"),) * 2), text("a"), text("")))
    with pytest.raises(LimitExceeded) as caught:
        pool.build(encode(Grammar({"root": Rule("s"), "s": many}, "root")))
    assert caught.value.limit in {"mask_s", "character_s"}
