"""The CPU seconds of one request's preparation, those spent ahead of the request in another thread included (OBS-5)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(slots=True)
class Spent:
    """Seconds spent for the request at hand; its tasks share them, and the first to take them counts them."""

    seconds: float = 0.0


_ahead: ContextVar[Spent | None] = ContextVar("ninfer_ahead", default=None)


def timed(work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> tuple[Result, float]:
    """The result of work, and the CPU seconds that it took in this thread."""
    started = time.thread_time()
    result = work(*args, **kwargs)
    return result, time.thread_time() - started


def note_ahead(seconds: float) -> None:
    """Add what was spent before the request of the running task is given to the engine."""
    spent = _ahead.get()
    if spent is None:
        _ahead.set(Spent(seconds))
    else:
        spent.seconds += seconds


def take_ahead() -> float:
    """What was noted for the request of the running task, once."""
    spent = _ahead.get()
    if spent is None:
        return 0.0
    seconds, spent.seconds = spent.seconds, 0.0
    return seconds
