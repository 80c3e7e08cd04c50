"""Python entries that continue a chat."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ninfer_vllm.host.prepare import chat_turn


def in_chat_turn(original: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the requests this call adds as chat turns."""

    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with chat_turn(continued=bool(kwargs.get("continue_final_message", False))):
            return original(self, *args, **kwargs)

    return call
