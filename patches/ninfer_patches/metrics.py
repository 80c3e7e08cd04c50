"""Metrics: what is refused before it is queued is counted where it is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ninfer_vllm.errors import NInferError
from ninfer_vllm.host.metrics import metrics


def count_refusals(original: Callable[..., Any]) -> Callable[..., Any]:
    """Count the constraints that preparation refuses."""

    @wraps(original)
    def process(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except NInferError as error:
            metrics().refuse(error)
            raise

    return process
