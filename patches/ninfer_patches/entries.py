"""Python entries: chat turns, and beam search."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ninfer_vllm.errors import ConflictingConstraint
from ninfer_vllm.host.prepare import chat_turn


def in_chat_turn(original: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the requests this call adds as chat turns."""

    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with chat_turn(continued=bool(kwargs.get("continue_final_message", False))):
            return original(self, *args, **kwargs)

    return call


def without_constraint(original: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse beam search under a constraint.

    Errors: ConflictingConstraint.
    """

    @wraps(original)
    def call(self: Any, prompts: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        if params.structured_outputs is not None and self.llm_engine.input_processor.ninfer is not None:
            raise ConflictingConstraint("beam_search", "beam search cannot be combined with a constraint")
        return original(self, prompts, params, *args, **kwargs)

    return call
