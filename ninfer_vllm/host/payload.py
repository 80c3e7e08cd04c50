"""What travels with a request from the API process to the engine core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ninfer_vllm.compiler.lowering import Lowered
from ninfer_vllm.constraint import Frame
from ninfer_vllm.errors import MatcherInconsistency


@dataclass(frozen=True, slots=True)
class Payload:
    """A lowered grammar, the frame its output starts in, and what preparing it cost."""

    key: str
    kind: str
    frame: Frame
    grammar: bytes
    seconds: float

    @classmethod
    def of(cls, lowered: Lowered, frame: Frame) -> Payload:
        """The payload of a lowered grammar."""
        return cls(lowered.key, lowered.kind, frame, lowered.grammar, lowered.seconds)

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
        return cls(**cast(dict[str, Any], value))
