"""Our errors as HTTP bodies, in the shape of the protocol that was spoken (ERR-2, ERR-5)."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response
from vllm.entrypoints.serve.exception_handling.handlers.vllm_error import vllm_error_handler
from vllm.exceptions import VLLMClientError, VLLMValidationError

from ninfer_vllm.errors import (
    ConflictingConstraint,
    ConstraintError,
    InvalidTools,
    NInferError,
    RowFailure,
    SessionError,
    status_of,
)  # fmt: skip
from ninfer_vllm.host.metrics import metrics

ANTHROPIC_PATH = "/v1/messages"

TWO_CONSTRAINTS = ("You can only use one kind of", "You can only either use constraints")
"""How the host begins its refusals of two members of `structured_outputs`, and of one beside a named tool."""


class LocatedRefusal(VLLMClientError):
    """A refusal with the request field it lies in, on its way to the HTTP layer."""

    def __init__(self, error: NInferError, origin: str | None, *, exact: bool = False) -> None:
        """`origin` is where the fault's own place begins, or with `exact` the whole path."""
        super().__init__(str(error))
        self.error = error
        self.origin = origin
        self.exact = exact

    @property
    def param(self) -> str | None:
        """The full path of the fault in the request (JSD-8)."""
        return self.origin if self.exact else param_of(self.error, self.origin)


class RefusedStream(VLLMClientError):
    """A stream that ended with an error before its first event; `body` is that error's JSON."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["error"]["message"])
        self.body = body

    @property
    def status(self) -> int:
        """The HTTP status: the host's own code, or the status of ours."""
        code = self.body["error"]["code"]
        return code if isinstance(code, int) else status_of(code)


def add_error_handlers(app: FastAPI) -> None:
    """Answer our errors with their own status and body; every other error stays the host's."""
    for family in (ConstraintError, RowFailure, SessionError):
        app.add_exception_handler(family, _answer_plain)
    app.add_exception_handler(LocatedRefusal, _answer_located)
    app.add_exception_handler(RefusedStream, _answer_refused_stream)
    app.add_exception_handler(VLLMValidationError, _answer_host_refusal)


def openai_body(error: NInferError, param: str | None = None) -> dict[str, Any]:
    """The OpenAI error body: `param` is the place as a path in the request, `code` our stable code."""
    return {
        "error": {
            "message": str(error),
            "type": _type_of(error.status),
            "param": param,
            "code": error.code,
            "place": error.place,
        }
    }


def param_of(error: NInferError, origin: str | None) -> str | None:
    """The full path of the fault: the request field and, for a schema, the JSON Pointer inside it (JSD-8)."""
    place = error.place
    if "field" in place:
        return str(place["field"])
    pointer = place.get("pointer")
    if pointer is None or origin is None:
        return origin
    return f"{origin}{pointer}"


def stream_event(error: NInferError) -> str:
    """The JSON of an error event in a stream."""
    return json.dumps(openai_body(error, param_of(error, None)))


async def _answer_plain(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, NInferError)
    return _response(request, error, param_of(error, None))


async def _answer_located(request: Request, refusal: Exception) -> JSONResponse:
    assert isinstance(refusal, LocatedRefusal)
    return _refused(request, refusal.error, refusal.param)


async def _answer_refused_stream(request: Request, refusal: Exception) -> JSONResponse:
    assert isinstance(refusal, RefusedStream)
    return JSONResponse(refusal.body, status_code=refusal.status)


async def _answer_host_refusal(request: Request, refusal: Exception) -> Response:
    """The host's own refusal; with our code where it is about two constraints (REQ-2), or about the tools."""
    assert isinstance(refusal, VLLMValidationError)
    if str(refusal).startswith(TWO_CONSTRAINTS):
        error = ConflictingConstraint("structured_outputs", "only one constraint may be given")
        return _refused(request, error, error.field)
    parameter = refusal.parameter or ""
    if parameter.startswith("tool"):
        return _refused(request, InvalidTools("", str(refusal)), parameter.replace(".", "/"))
    response: Response = await vllm_error_handler(request, refusal)
    return response


def _refused(request: Request, error: NInferError, param: str | None) -> JSONResponse:
    metrics().refuse(error)
    return _response(request, error, param)


def _response(request: Request, error: NInferError, param: str | None) -> JSONResponse:
    body = openai_body(error, param)
    if request.url.path.startswith(ANTHROPIC_PATH):
        body = {"type": "error", **body}
    return JSONResponse(body, status_code=error.status)


def _type_of(status: HTTPStatus) -> str:
    return "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
