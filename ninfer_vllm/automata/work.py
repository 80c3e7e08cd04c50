"""Work counted in steps, so that preparing a constraint is bounded alike on every machine (CMP-9).

A step is about a microsecond of a loop that can grow: an edge met, two sets compared, two parts paired. Whoever bounds
work opens a budget, and the loops of this package and of the languages spend from it; without one, nothing is counted.
A remembered result costs what making it has cost, once in a budget: what is refused never depends on what others have
left behind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from math import inf
from threading import Lock
from typing import Generic, ParamSpec, TypeVar, cast

from ninfer_vllm.errors import LimitExceeded

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

REMEMBERED_STEPS = 2_000_000
"""Steps of all results of one function that are remembered: some 50 MB of automata."""

LIMIT = "preparation_steps"
"""The name under which exceeding a budget is reported."""


class Budget:
    """Steps that may be spent, and those that are."""

    def __init__(self, allowed: float = inf, spent: int = 0) -> None:
        self.allowed = allowed
        self.spent = spent
        self.paid: dict[Hashable, object] = {}
        """Remembered results that were paid for: each once."""

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


class Recent(Generic[Result]):
    """Results that were asked for last, each with the steps it took; thread-safe.

    Steps stand for memory as well, so that many large results are not kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Hashable, tuple[Result, int]] = OrderedDict()
        self._steps = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> tuple[Result, int] | None:
        """A result with its steps, if it is kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Hashable, result: Result, steps: int) -> None:
        """Keep a result, and what else has room beside it."""
        with self._lock:
            _, before = self._kept.pop(key, (result, 0))
            self._kept[key] = result, steps
            self._steps += steps - before
            while len(self._kept) > self._size or (self._steps > REMEMBERED_STEPS and self._kept):
                _, (_, dropped) = self._kept.popitem(last=False)
                self._steps -= dropped


def remembered(size: int) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A cache of the last results of a pure function, at most `size` and `REMEMBERED_STEPS`."""

    def decorated(make: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        recent: Recent[Result] = Recent(size)

        def made(current: Budget, key: Hashable, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
            found = recent.get(key)
            if found is not None:
                current.spend(found[1])
                return found[0]
            # In a budget of its own, so that what was paid for before makes nothing cheaper that is remembered.
            inner = Budget(current.allowed, current.spent)
            token = _current.set(inner)
            try:
                result = make(*args, **options)
            finally:
                _current.reset(token)
                steps, current.spent = inner.spent - current.spent, inner.spent
            recent.keep(key, result, steps)
            return result

        @wraps(make)
        def recalled(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
            current = _current.get() or Budget()
            key = (recent, args, tuple(options.items()))
            if key not in current.paid:
                current.paid[key] = made(current, key, *args, **options)
            return cast("Result", current.paid[key])

        return recalled

    return decorated


def uncounted(make: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A cache of all results of a pure function of few arguments, which are as good as constants: they cost nothing."""

    def made(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        with budget():
            return make(*args, **options)

    return cast("Callable[Arguments, Result]", wraps(make)(cache(made)))
