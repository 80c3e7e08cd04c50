"""Thinking of a model of no known family, as the reasoning parser that the server was started with reads it (FAM-1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from vllm.reasoning import ReasoningParserManager

from ninfer_vllm.errors import ConflictingConstraint
from ninfer_vllm.host.host_parsers import NAME


class ReasoningGate:
    """The host's reasoning parser as two tokens: one that may open a block, and the one behind which content starts."""

    def __init__(self, parser_name: str, tokenizer: Any) -> None:
        self._parser_name = parser_name
        self._tokenizer = tokenizer

    @classmethod
    def of(cls, vllm_config: Any, tokenizer: Any) -> ReasoningGate | None:
        """The gate of an engine, None where it has no reasoning parser or ours."""
        name = vllm_config.structured_outputs_config.reasoning_parser
        return cls(name, tokenizer) if name and name != NAME else None

    def tokens(self, prompt: Sequence[int]) -> tuple[int | None, int] | None:
        """The two tokens, or None where the reasoning is over with the prompt.

        Errors: ConflictingConstraint where the parser ends reasoning by something else than one token.
        """
        if self._parser.is_reasoning_end(list(prompt)):
            return None
        closing = self._single(self._parser.reasoning_end_str)
        if closing is None:
            raise ConflictingConstraint(
                "reasoning_parser",
                f"a constraint behind the reasoning that {self._parser_name} reads needs one end token",
            )
        return self._single(self._parser.reasoning_start_str), closing

    @cached_property
    def _parser(self) -> Any:
        return ReasoningParserManager.get_reasoning_parser(self._parser_name)(self._tokenizer)

    def _single(self, text: str | None) -> int | None:
        ids = self._tokenizer.encode(text, add_special_tokens=False) if text else []
        return ids[0] if len(ids) == 1 else None
