"""A real API server as a subprocess, for tests that speak HTTP to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

START_SECONDS = 1200
"""Seconds that a start may take where two engines and other tests share two slow cores: a hang guard."""
STOP_SECONDS = 40
ANSWER_SECONDS = 600
"""Seconds that an answer may take there: a hang guard."""
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    log: Path
    pid: int

    def post(self, path: str, body: Mapping[str, Any], timeout: float = ANSWER_SECONDS) -> httpx.Response:
        """One request."""
        return httpx.post(f"{self.url}{path}", json=body, timeout=timeout)

    def healthy(self) -> bool:
        """Whether the server and its engine answer."""
        try:
            return httpx.get(f"{self.url}/health", timeout=ANSWER_SECONDS).status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def serving(
    model: Path, *options: str, command: Sequence[str] = ("ninfer",), environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Start `COMMAND serve MODEL OPTIONS` on a free port, wait until it answers, and stop it at the end.

    `command` is "ninfer", "vllm" (the host's own console entry) or "module" (the host's API server module).
    """
    with _reserved_port() as port, _started(model, options, command, environment or {}, port) as server:
        yield server


@contextmanager
def _started(
    model: Path, options: Sequence[str], command: Sequence[str], environment: Mapping[str, str], port: int
) -> Iterator[Server]:
    words = [*_command(command[0], model), "--served-model-name", "m", "--port", str(port), "--host", "127.0.0.1"]
    words += ["--enforce-eager", "--max-model-len", "512", "--max-num-seqs", "16", *options]
    with tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as log:
        process = subprocess.Popen(
            words, stdout=log, stderr=subprocess.STDOUT, env={**_unselected(), **ENVIRONMENT, **environment},
            start_new_session=True,
        )  # fmt: skip
    server = Server(f"http://127.0.0.1:{port}", Path(log.name), process.pid)
    try:
        _wait_until_up(server, process)
        yield server
    finally:
        _stop(process)


def _command(kind: str, model: Path) -> list[str]:
    if kind == "ninfer":
        return [sys.executable, "-m", "ninfer_vllm", "serve", str(model)]
    if kind == "module":
        return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    # The CPU wheel's console script looks its version up under another distribution's name; nothing else differs.
    script = (
        "import importlib.metadata as m, sys; real = m.version; import vllm\n"
        "m.version = lambda name: vllm.__version__ + '+cpu' if name == 'vllm' else real(name)\n"
        "from vllm.entrypoints.cli.main import main; sys.argv[0] = 'vllm'; main()"
    )
    return [sys.executable, "-c", script, "serve", str(model)]


def _unselected() -> dict[str, str]:
    """This process's environment without what an engine in it may have selected for its own children."""
    return {name: value for name, value in os.environ.items() if name not in ("NINFER_SELECTED", "VLLM_PLUGINS")}


@contextmanager
def _reserved_port() -> Iterator[int]:
    """A port that the system gives to nobody else meanwhile; a server that asks for it by number may listen on it."""
    with socket.socket() as holder:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def _wait_until_up(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.healthy():
            return
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{server.log.read_text()[-6000:]}")
        time.sleep(0.5)
    raise TimeoutError(f"the server did not answer:\n{server.log.read_text()[-6000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
