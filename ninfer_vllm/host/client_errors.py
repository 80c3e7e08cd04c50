"""Our errors as exceptions that the host passes to the client unchanged."""

from __future__ import annotations

from functools import cache
from typing import Any

from vllm.exceptions import VLLMClientError, VLLMUnprocessableEntityError

from ninfer_vllm.errors import NInferError, RowFailure


def as_client_error(error: NInferError) -> NInferError:
    """The same error as an instance of the host's client error too, so that it is never wrapped as a server fault."""
    if isinstance(error, VLLMClientError):
        return error
    host = VLLMUnprocessableEntityError if isinstance(error, RowFailure) else VLLMClientError
    ours: Any = type(error)
    combined: NInferError = _combined(ours, host)(*error.facts)
    return combined


@cache
def _combined(ours: Any, host: type[Exception]) -> Any:
    body = {"__init__": ours.__init__, "__reduce__": lambda self: (ours, self.facts), "parameter": None}
    return type(ours.__name__, (ours, host), body)
