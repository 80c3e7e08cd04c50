"""What becomes of a refusal met on the way: raised at once, or collected so that all of them can be listed."""

from __future__ import annotations

from collections.abc import Callable

from ninfer_vllm.automata import work
from ninfer_vllm.errors import ConstraintError, LimitExceeded

MAX_PROBLEMS = 100
"""Problems of one schema that are listed: one with more of them needs another approach, not a longer list."""

Report = Callable[[ConstraintError], None]
"""Takes a refusal. Where it returns, whoever reported goes on as if the refused part said nothing."""


def at_once(problem: ConstraintError) -> None:
    """Raises the refusal."""
    raise problem


class Collected:
    """Refusals in the order in which they were met, each once."""

    def __init__(self) -> None:
        self.problems: list[ConstraintError] = []

    def __call__(self, problem: ConstraintError) -> None:
        """Keep the refusal; raise it where nothing more can or should be found."""
        self.add(problem)
        is_spent = isinstance(problem, LimitExceeded) and problem.limit == work.LIMIT
        if is_spent or len(self.problems) >= MAX_PROBLEMS:
            raise problem

    def add(self, problem: ConstraintError) -> None:
        """Keep the refusal."""
        if problem not in self.problems:
            self.problems.append(problem)
