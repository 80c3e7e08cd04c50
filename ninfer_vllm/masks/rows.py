"""What one mask row of a verification step means (MSK-3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class RowState(Enum):
    """State of one row; rows of unconstrained requests do not exist at all."""

    READY = auto()
    """The row holds the legal set."""
    DEAD_END = auto()
    """No token is legal here; the row holds a filler that is never published."""
    UNREACHABLE = auto()
    """Behind an illegal draft, a dead end or EOS; the row holds a filler."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of one request in one step: `states[i]` is the state after i drafts."""

    states: tuple[RowState, ...]

    @property
    def dead_end(self) -> int | None:
        """The position that has no legal token, if lookahead met one."""
        return self.states.index(RowState.DEAD_END) if RowState.DEAD_END in self.states else None

    @property
    def computed(self) -> int:
        """How many masks were computed."""
        return sum(state is not RowState.UNREACHABLE for state in self.states)
