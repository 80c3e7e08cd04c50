"""The /ninfer endpoints in a web application of their own, over the real preparation of a model, without its engine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from ninfer_patches.endpoints import create
from vllm.config import ModelConfig

from ninfer_vllm.embedded import build
from ninfer_vllm.host.endpoints import Backend, Endpoints
from ninfer_vllm.host.options import PluginOptions
from ninfer_vllm.host.prepare import Preparer
from ninfer_vllm.host.tokenizer_folder import load_tokenizer

START_S = 600
"""Seconds that the start of a web server may take: a hang guard."""


def endpoints_of(backend: Backend) -> tuple[FastAPI, Endpoints]:
    """An application that has only the endpoints."""
    app, endpoints = FastAPI(), create()
    endpoints.attach_router(app)
    endpoints.answer_from(backend)
    return app, endpoints


def backend(*, healthy: bool = True, keys: Sequence[str] = ()) -> Backend:
    """A backend over the random model with Qwen's vocabulary."""
    folder = build("tiny-qwen3")
    tokenizer = load_tokenizer(folder)
    preparer = Preparer(ModelConfig(model=str(folder)), tokenizer, PluginOptions())
    return Backend(preparer, tokenizer, "m", lambda: healthy, keys)


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The application behind a real port; its address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        deadline = time.monotonic() + START_S
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
