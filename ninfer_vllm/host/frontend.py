"""Model families: which frontend knows a model's phases (FAM-1)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

from ninfer_vllm.constraint import Frame

GROUP = "ninfer_vllm.frontends"


class Frontend(Protocol):
    """What a model family knows: where output starts and which control tokens frame its thinking."""

    @property
    def name(self) -> str:
        """The family's name."""

    @property
    def thinking_ids(self) -> tuple[int, int] | None:
        """Ids of the tokens that open and close a thinking block, where the model has them."""

    def start_frame(self, prompt: Sequence[int]) -> Frame:
        """Where the output of a chat turn starts, read from the rendered generation prompt (THK-2)."""


class GenericFrontend:
    """Every chat model without a family of its own: content starts at once."""

    name = "generic"
    thinking_ids = None

    def start_frame(self, prompt: Sequence[int]) -> Frame:
        """Content, whatever the prompt."""
        return "content"


def frontend_for(tokenizer: Any) -> Frontend:
    """The first registered family that recognises the tokenizer and its chat template, else the generic one."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        found: Frontend | None = entry.load().recognise(tokenizer)
        if found is not None:
            return found
    return GenericFrontend()
