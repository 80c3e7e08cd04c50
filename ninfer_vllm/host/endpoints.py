"""The endpoints under /ninfer: check a constraint, health, and the playground (API-7).

All work on a constraint runs in one thread beside the event loop, and only so many requests may wait for it. What a
client sends is answered with a verdict or with 400, 401, 413 or 503, never with a server error.
"""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import vllm
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from vllm import envs
from vllm.entrypoints.serve.middleware.authenticate import AuthenticationMiddleware
from vllm.logger import init_logger

from ninfer_vllm.constraint import Constraint, OutputConstraint
from ninfer_vllm.errors import ConstraintError, NInferError
from ninfer_vllm.host.endpoints_bodies import UnusableBody, body_of, constraint_in, number_in, text_in
from ninfer_vllm.host.playground import MAX_TEXT, Playground
from ninfer_vllm.host.prepare import Preparer

WAITING = 32
"""Requests that may wait for the thread; what comes on top is told to come back."""

PAGE = files("ninfer_vllm.host").joinpath("playground.html").read_text(encoding="utf-8")

logger = init_logger("vllm.ninfer")

Judge = Callable[[OutputConstraint], list[ConstraintError]]
"""Everything that keeps a constraint from being supported."""

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Backend:
    """What an API server's endpoints answer from."""

    preparer: Preparer
    tokenizer: Any
    model: str
    is_healthy: Callable[[], bool]
    keys: Sequence[str] = ()
    """API keys of the server; without any, everybody is answered."""


class Endpoints:
    """The routes of one API server."""

    name = "ninfer"
    required_tasks = ("generate",)

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ninfer-endpoints")
        self._num_waiting = 0

    def attach_router(self, app: FastAPI) -> None:
        """Add the routes to the host's application."""
        router = APIRouter()
        router.add_api_route("/ninfer/health", self.health, methods=["GET"])
        router.add_api_route("/ninfer/playground", self.page, methods=["GET"], response_class=HTMLResponse)
        for path, answer in (
            ("check", self._check),
            ("playground/walk", self._walk),
            ("playground/sample", self._sample),
        ):
            router.add_api_route(f"/ninfer/{path}", self._answering(answer), methods=["POST"])
        app.include_router(router)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Learn the engine and the server's keys once the server has them."""
        processor = engine_client.input_processor
        self.answer_from(
            Backend(
                processor.ninfer,
                processor.tokenizer,
                (args.served_model_name or [args.model])[0],
                lambda: not engine_client.errored,
                [key for key in (args.api_key or [envs.VLLM_API_KEY]) if key],
            )
        )

    def answer_from(self, backend: Backend) -> None:
        """Answer from this backend from now on."""
        self._backend = backend
        self._preparer = backend.preparer
        self._playground = Playground(backend.preparer, backend.tokenizer)

    async def health(self) -> JSONResponse:
        """Whether the engine answers, and what runs here: 200, or 503 where it does not."""
        healthy = self._backend.is_healthy()
        facts = {
            "status": "ok" if healthy else "engine_errored",
            "model": self._backend.model,
            "version": version("ninfer-vllm"),
            "host": vllm.__version__,
            "options": self._preparer.options.to_json(),
        }
        return JSONResponse(facts, status_code=200 if healthy else 503)

    async def page(self) -> HTMLResponse:
        """The playground: one page that loads nothing else."""
        return HTMLResponse(PAGE)

    def _answering(self, answer: Callable[[Body], dict[str, Any]]) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            keys = list(self._backend.keys)
            if keys and not AuthenticationMiddleware(request.app, keys).verify_token(request.headers):
                return _unusable("this server asks for its API key", 401)
            try:
                body = await body_of(request)
            except UnusableBody as reason:
                return _unusable(str(reason), reason.status)
            return await self._work(partial(_answered, answer, body))

        return handle

    async def _work(self, work: Callable[[], Response]) -> Response:
        if self._num_waiting >= WAITING:
            return _unusable("too many requests wait; come back later", 503)
        self._num_waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._num_waiting -= 1

    def _check(self, body: Body) -> dict[str, Any]:
        constraint = self._constraint(body)
        problems = [problem.to_json() for problem in self._problems(constraint)]
        return {"kind": constraint.kind, "supported": not problems, "problems": problems}

    def _problems(self, constraint: Constraint) -> list[ConstraintError]:
        found = self._judge(constraint) if isinstance(constraint, OutputConstraint) else []
        if not found:
            # What only this model decides: its tokens, and how it writes tool calls.
            self._preparer.lower(constraint)
        return found

    def _walk(self, body: Body) -> dict[str, Any]:
        return self._playground.walk(self._constraint(body), text_in(body, "text", MAX_TEXT))

    def _sample(self, body: Body) -> dict[str, Any]:
        return {"text": self._playground.sample(self._constraint(body), number_in(body, "seed"))}

    def _constraint(self, body: Body) -> Constraint:
        return constraint_in(body, self._preparer.options.unknown_schema_keywords)


def _answered(answer: Callable[[Body], dict[str, Any]], body: Body) -> Response:
    try:
        return _response(answer(body))
    except UnusableBody as reason:
        return _unusable(str(reason), reason.status)
    except ConstraintError as refusal:
        return _response({"kind": body["kind"], "supported": False, "problems": [refusal.to_json()]})
    except NInferError as fault:
        return _response({"kind": body["kind"], "supported": None, "problems": [fault.to_json()]})
    except Exception as fault:
        # The kind of the fault only: its message may quote what the client sent (OBS-6).
        logger.error("no verdict for %s: %s", answer.__name__, type(fault).__name__)
        return _unusable(f"no verdict: {type(fault).__name__}", 503)


def _response(content: dict[str, Any], status: int = 200) -> Response:
    # What a client sent may be quoted, unpaired surrogates included: only escaped they have an encoding.
    return Response(json.dumps(content), status_code=status, media_type="application/json")


def _unusable(reason: str, status: int) -> Response:
    return _response({"supported": None, "unusable": reason}, status)
