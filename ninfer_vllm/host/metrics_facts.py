"""What the engine core tells the API process about an ended sample, beside its record: plain values on the wire."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ninfer_vllm.compiler.observed import Observed


@dataclass(frozen=True, slots=True)
class Facts:
    """What one ended sample cost, and what its engine's compiler did since the sample that ended before."""

    mask_s: float = 0.0
    """CPU seconds of its masks."""
    compiler: Observed = field(default_factory=Observed)

    def to_wire(self) -> dict[str, Any]:
        """Plain values that the host's message encoding carries; a compiler that did nothing is left out."""
        told = asdict(self)
        if self.compiler.is_empty:
            del told["compiler"]
        return told

    @classmethod
    def from_wire(cls, told: dict[str, Any]) -> Facts:
        """The inverse of `to_wire`."""
        return cls(told["mask_s"], Observed(**told.get("compiler", {})))
