"""Where the output of a Qwen-style thinking model starts, read from its chat template and the rendered prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ninfer_vllm.constraint import Frame

OPEN, CLOSE = "<think>", "</think>"
TURN = "<|im_start|>"
PROBE = [{"role": "user", "content": "probe"}]


@dataclass(frozen=True, slots=True)
class QwenFrontend:
    """The phases of one model (THK-2)."""

    open_id: int
    close_id: int
    turn_id: int | None
    model_opens: bool
    """Whether the template leaves the opening of a thinking block to the model (the hybrid models of Qwen3)."""

    name = "qwen"

    @classmethod
    def recognise(cls, tokenizer: Any) -> QwenFrontend | None:
        """The frontend of a tokenizer with thinking tokens and a chat template that uses them, else None."""
        control = tokenizer.get_added_vocab()
        template = getattr(tokenizer, "chat_template", None)
        if OPEN not in control or CLOSE not in control or not template or CLOSE not in str(template):
            return None
        return cls(control[OPEN], control[CLOSE], control.get(TURN), _model_opens(tokenizer))

    @property
    def thinking_ids(self) -> tuple[int, int]:
        """Ids of `<think>` and `</think>`."""
        return self.open_id, self.close_id

    def start_frame(self, prompt: Sequence[int]) -> Frame:
        """The frame of a generation prompt: only what follows the last turn marker counts.

        An open block is thinking, a closed one content; without any block the output is content, unless the model
        opens its thinking itself.
        """
        for token in reversed(prompt):
            if token == self.close_id:
                return "content"
            if token == self.open_id:
                return "thinking"
            if token == self.turn_id:
                break
        return "opening" if self.model_opens else "content"


def _model_opens(tokenizer: Any) -> bool:
    """Whether thinking shows in no prompt, but its absence does: then the model writes the opening itself."""
    thinking = _generation_prompt(tokenizer, enable_thinking=True)
    silent = _generation_prompt(tokenizer, enable_thinking=False)
    return OPEN not in thinking and CLOSE in silent


def _generation_prompt(tokenizer: Any, *, enable_thinking: bool) -> str:
    text = tokenizer.apply_chat_template(
        PROBE, tokenize=False, add_generation_prompt=True, enable_thinking=enable_thinking
    )
    return str(text)
