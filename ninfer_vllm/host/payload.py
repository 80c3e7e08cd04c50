"""What travels with a request from the API process to the engine core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ninfer_vllm.compiler.lowering import Lowered
from ninfer_vllm.constraint import Frame
from ninfer_vllm.errors import MatcherInconsistency
from ninfer_vllm.session.existing import Existing


@dataclass(frozen=True, slots=True)
class Payload:
    """A lowered grammar, where its output starts, and what preparing it cost."""

    key: str
    kind: str
    frame: Frame
    grammar: bytes
    seconds: float = 0.0
    """CPU seconds of preparing this request; next to nothing where another request has lowered the same grammar."""
    budget: int | None = None
    """Tokens that the thinking block may hold (THK-7)."""
    existing: Existing = ()
    """Content that the prompt already holds (CON-1)."""
    tool_id: int | None = None
    """The control token that begins a tool call (TOOL-12)."""
    gate: tuple[int | None, int] | None = None
    """Tokens around reasoning that the host's own parser gates the content behind (FAM-1)."""

    @classmethod
    def of(cls, lowered: Lowered, frame: Frame, budget: int | None = None, existing: Existing = ()) -> Payload:
        """The payload of a lowered grammar."""
        return cls(
            lowered.key, lowered.kind, frame, lowered.grammar, budget=budget, existing=existing, tool_id=lowered.tool_id
        )

    def to_wire(self) -> dict[str, Any]:
        """Plain values that the host's message encoding carries."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_wire(cls, value: object) -> Payload:
        """The inverse of `to_wire`.

        Errors: MatcherInconsistency if the request did not pass this plugin's preparation.
        """
        if not isinstance(value, dict):
            raise MatcherInconsistency("a constrained request reached the engine core without its grammar")
        fields = cast(dict[str, Any], value)
        gate = fields["gate"]
        return cls(**{**fields, "existing": tuple(fields["existing"]), "gate": None if gate is None else tuple(gate)})
