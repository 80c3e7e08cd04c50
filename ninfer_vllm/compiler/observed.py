"""What a compiler did since it was last asked, for the counters of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from ninfer_vllm.record import CacheOutcome


@dataclass(slots=True)
class Observed:
    """Counts and times of one compiler; not thread-safe: the compiler holds its lock around every change."""

    outcomes: dict[CacheOutcome, int] = field(default_factory=dict)
    evictions: int = 0
    bytes_change: int = 0
    """Bytes that the cache grew by; negative where it shrank."""
    build_s: list[float] = field(default_factory=list)
    """Wall seconds of each cold build, failed ones included."""

    def note(self, outcome: CacheOutcome) -> None:
        """Count how one request came by its grammar."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return self == Observed()
