"""Compile processes: a build runs where it can be stopped, and where a crash costs one request only.

A thread inside the core can be neither stopped nor survived, and what a process compiled has to come back as JSON. That
is dear: for an everyday schema (Qwen vocabulary, 120 ms to compile) it took 300 ms to write, 6 MB, and 160 ms to read.
So the process first compiles for a sample of the vocabulary, one token in 32. Over 80 real schemas and a dozen hostile
grammars that took between 1/18 and 1/1 of the whole (11 ms for the everyday schema), so it bounds the whole from above.
What it finds small and fast is compiled a second time by the engine itself; the rest is compiled in the process, within
its limits of time and memory. A process starts in 0.3 s, once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref

from ninfer_vllm.engines import frames
from ninfer_vllm.errors import CompileFailed, LimitExceeded
from ninfer_vllm.limits import COLD_BUILDS, COMPILE_MEMORY_BYTES, COMPILE_TIMEOUT_S, WORKER_START_S
from ninfer_vllm.vocabulary import Vocabulary

CHUNK = 1 << 20
"""Bytes of one read or write of a pipe."""

LINKER_ABORT = 127
"""Status of a process that the dynamic linker ended because it had no memory left for a thread's data."""

# The child searches modules where its parent does, and imports nothing else of the parent.
ENTRY = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from ninfer_vllm.engines.worker import main; main()"


class WorkerPool:
    """At most `size` compile processes for one vocabulary, started when first needed and replaced when they fail."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        size: int = COLD_BUILDS,
        timeout_s: float = COMPILE_TIMEOUT_S,
        memory_bytes: int = COMPILE_MEMORY_BYTES,
    ) -> None:
        self._setup = frames.pack(frames.Setup(vocabulary.spellings, vocabulary.classes, memory_bytes))
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self.close = weakref.finalize(self, _close_all, self._idle)
        """Ends the idle processes; called at the latest when the pool is no longer used."""

    def build(self, grammar: bytes) -> frames.Harmless | frames.Built:
        """An encoded grammar, compiled or found harmless to compile.

        Errors: what the build raised; LimitExceeded where it took too long or all memory; CompileFailed where the
        process crashed.
        """
        with self._slots:
            worker = self._take()
            kept = False
            try:
                answer = worker.ask(frames.pack(frames.Build(grammar)), self._timeout_s)
                kept = not (isinstance(answer, frames.Harmless | frames.Built) and answer.retires)
            except TimeoutError as error:
                raise LimitExceeded("grammar_compile_timeout", self._timeout_s) from error
            except _Ended as error:
                if error.status == LINKER_ABORT:
                    raise LimitExceeded("compile_memory_bytes", self._memory_bytes) from error
                raise CompileFailed(str(error)) from error
            finally:
                self._put_back(worker) if kept else worker.close()
        if isinstance(answer, frames.Failed):
            raise answer.exception()
        assert isinstance(answer, frames.Harmless | frames.Built)
        return answer

    def _take(self) -> _Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    return worker
                worker.close()
        return _Worker(self._setup)

    def _put_back(self, worker: _Worker) -> None:
        with self._lock:
            self._idle.append(worker)


class _Worker:
    """One compile process and its pipes."""

    def __init__(self, setup: bytes) -> None:
        # A session of its own keeps the terminal's signals away: the engine decides when it ends.
        self._process = subprocess.Popen(
            [sys.executable, "-c", ENTRY, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._source = self._process.stdout.fileno()
        self._sink = self._process.stdin.fileno()
        os.set_blocking(self._sink, False)
        try:
            self.ask(setup, WORKER_START_S)
        except TimeoutError as error:
            self.close()
            raise CompileFailed(f"the compile process did not start within {WORKER_START_S} s") from error
        except _Ended as error:
            self.close()
            raise CompileFailed(str(error)) from error
        except BaseException:
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def ask(self, frame: bytes, timeout_s: float) -> frames.Message:
        """Send one frame and wait for the answer.

        Errors: TimeoutError; _Ended where the process ended instead.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._write(frame, deadline)
            (length,) = frames.LENGTH.unpack(self._read(frames.LENGTH.size, deadline))
            return frames.unpack(self._read(length, deadline))
        except (BrokenPipeError, EOFError) as error:
            raise _Ended(self._process.wait()) from error

    def close(self) -> None:
        """Kill the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            _wait(self._sink, select.POLLOUT, deadline)
            rest = rest[os.write(self._sink, rest[:CHUNK]) :]

    def _read(self, length: int, deadline: float) -> bytearray:
        data = bytearray()
        while len(data) < length:
            _wait(self._source, select.POLLIN, deadline)
            piece = os.read(self._source, min(CHUNK, length - len(data)))
            if not piece:
                raise EOFError
            data += piece
        return data


class _Ended(Exception):
    """The compile process ended before it answered."""

    def __init__(self, status: int) -> None:
        ending = signal.Signals(-status).name if status < 0 else f"status {status}"
        super().__init__(f"the compile process ended with {ending}")
        self.status = status


def _wait(descriptor: int, events: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, events)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError


def _close_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().close()
