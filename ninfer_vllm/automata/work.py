"""Work counted in steps, so that preparing a constraint is bounded alike on every machine (CMP-9).

A step is about a microsecond of a loop that can grow: an edge met, two sets compared, two parts paired. Whoever bounds
work opens a budget, and the loops of this package and of the languages spend from it; without one, nothing is counted.
A remembered result costs again what making it has cost: what is refused never depends on what is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache, wraps
from math import inf
from typing import ParamSpec, TypeVar, cast

from ninfer_vllm.errors import LimitExceeded

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

LIMIT = "preparation_steps"
"""The name under which exceeding a budget is reported."""


class Budget:
    """Steps that may be spent, and those that are."""

    def __init__(self, allowed: float = inf) -> None:
        self.allowed = allowed
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Count some steps; Errors: LimitExceeded beyond the allowed number."""
        self.spent += steps
        if self.spent > self.allowed:
            raise LimitExceeded(LIMIT, self.allowed, self.spent)


_current: ContextVar[Budget | None] = ContextVar("work_budget", default=None)


@contextmanager
def budget(allowed: float = inf) -> Iterator[Budget]:
    """A budget for all work inside the block; one that is open already is left alone meanwhile."""
    opened = Budget(allowed)
    token = _current.set(opened)
    try:
        yield opened
    finally:
        _current.reset(token)


def spend(steps: int) -> None:
    """Count some steps of the current budget, where there is one.

    Errors: LimitExceeded.
    """
    current = _current.get()
    if current is not None:
        current.spend(steps)


def remembered(size: int) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A cache of the last `size` results of a pure function, each with the steps it took."""

    def decorated(make: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        def counted(*args: Arguments.args, **options: Arguments.kwargs) -> tuple[Result, int]:
            current = _current.get()
            assert current is not None
            before = current.spent
            return make(*args, **options), current.spent - before

        made = cast("Callable[Arguments, tuple[Result, int]]", lru_cache(maxsize=size)(counted))

        @wraps(make)
        def recalled(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
            current = _current.get()
            if current is None:
                with budget():
                    return made(*args, **options)[0]
            before = current.spent
            result, steps = made(*args, **options)
            current.spend(steps - (current.spent - before))
            return result

        return recalled

    return decorated


def uncounted(make: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A cache of all results of a pure function of few arguments, which are as good as constants: they cost nothing."""

    def made(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        with budget():
            return make(*args, **options)

    return cast("Callable[Arguments, Result]", wraps(make)(cache(made)))
