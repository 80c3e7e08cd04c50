"""What rendering knows of a chat turn, on its way to preparation with the prompt it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ninfer_vllm.errors import ConflictingConstraint

TURN_KEY = "ninfer_turn"
"""Key of the host's rendered prompt; it never leaves the API process."""

FIELD = "continue_final_message"
SENTINEL = "continued content"
"""Stands for the final message's content where the template is asked what it writes around it."""


@dataclass(frozen=True, slots=True)
class Continued:
    """The final message that a turn continues: its content, and all that the template writes before it."""

    content: str
    head: str


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A rendered chat turn."""

    find_continued: Callable[[], Continued] | None = None
    """Finds the message that the turn continues; None where it starts a new one. Only a constraint needs to know."""


def mark(rendered: Any, turn: ChatTurn) -> None:
    """Note the turn on the host's rendered prompt."""
    if isinstance(rendered, dict):
        rendered[TURN_KEY] = turn


def turn_of(prompt: object) -> ChatTurn | None:
    """The turn of a rendered prompt, None for a raw prompt."""
    turn = prompt.get(TURN_KEY) if isinstance(prompt, Mapping) else None
    return turn if isinstance(turn, ChatTurn) else None


def keep_content(messages: Sequence[Any]) -> None:
    """Make a list of the final message's content parts, which the host's protocol classes let be read only once."""
    final = messages[-1] if messages else None
    if isinstance(final, dict) and not isinstance(final.get("content"), str | None):
        final["content"] = list(final["content"])


def final_content(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of the assistant message that a turn continues.

    Errors: ConflictingConstraint where the final message is no plain assistant text.
    """
    final = messages[-1]
    if final.get("role") != "assistant":
        raise ConflictingConstraint(FIELD, "under a constraint only an assistant message can be continued")
    if final.get("tool_calls"):
        raise ConflictingConstraint(FIELD, "a message with finished calls cannot be continued")
    content = final.get("content")
    if not isinstance(content, str):
        texts = [part.get("text") for part in content or () if isinstance(part, Mapping)]
        content = texts[0] if len(texts) == 1 else None
    if not isinstance(content, str) or not content:
        raise ConflictingConstraint(FIELD, "the final message has no single text to continue")
    return content


def with_sentinel(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same conversation with other content in its final message."""
    return [*map(dict, messages[:-1]), {**messages[-1], "content": SENTINEL}]


def continued_in(content: str, rendered: object, probed: object) -> Continued:
    """The existing content as the template's own rendering shows it (CON-2).

    `rendered` is the prompt, `probed` the same one with the sentinel as content.

    Errors: ConflictingConstraint where the template altered the content, or wrapped it in something that depends on it.
    """
    if not isinstance(rendered, str) or not isinstance(probed, str):
        raise ConflictingConstraint(FIELD, "needs a prompt that is rendered as text")
    if not rendered.endswith(content):
        raise ConflictingConstraint(FIELD, "the chat template does not write the final message's content as it is")
    head = rendered[: len(rendered) - len(content)]
    if probed != head + SENTINEL:
        raise ConflictingConstraint(FIELD, "the chat template writes something else around the final message's content")
    return Continued(content, head)
