"""Python entries: chat turns, and beam search."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ninfer_vllm.errors import ConflictingConstraint
from ninfer_vllm.host.turns import ChatTurn, Continued, continued_in, final_content, mark, with_sentinel


def mark_chat_prompt(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note on a rendered prompt that it is a chat turn, and how to find the message it continues."""

    @wraps(original)
    def preprocess(self: Any, conversation: Any, *args: Any, **kwargs: Any) -> Any:
        rendered = original(self, conversation, *args, **kwargs)

        def find() -> Continued:
            content = final_content(conversation)
            probed = original(self, with_sentinel(conversation), *args, **kwargs)
            return continued_in(content, rendered.get("prompt"), probed.get("prompt"))

        mark(rendered, ChatTurn(find if kwargs.get("continue_final_message") else None))
        return rendered

    return preprocess


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
