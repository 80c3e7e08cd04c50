"""The `constraint` record of a finished sample (OBS-1) and its one serialised form (OBS-2)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Branch = Literal["undecided", "content", "tools"]
CacheOutcome = Literal["hit", "built", "waited"]


@dataclass(slots=True)
class ConstraintRecord:
    """What was observed of one constrained sample, in committed state only.

    Units: seconds of CPU or wall time as named; mask_bytes counts bytes shipped to the sampler.
    """

    kind: str
    engine: str
    branch: Branch = "undecided"
    complete: bool = False
    terminated: bool = False
    cache: CacheOutcome = "built"
    mask_positions: int = 0
    mask_bytes: int = 0
    reasoning_tokens: int = 0
    error: dict[str, Any] | None = None
    timings: dict[str, float] | None = None
    """prepare_s, mask_s and commit_s, when timings are on."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object; absent facts (`error`, `timings`) are left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}
