"""The names under which the host knows this product's parser; reading is done by the parser composed of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.reasoning.abs_reasoning_parsers import ReasoningParser
from vllm.tool_parsers.abstract_tool_parser import ToolParser

from ninfer_vllm.host.frontend import frontend_for

NAME = "ninfer"


class NinferReasoningParser(ReasoningParser):
    """Answers what the host asks of a reasoning parser outside publication: where reasoning starts and ends."""

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self._frontend = frontend_for(tokenizer)

    @property
    def reasoning_start_str(self) -> str | None:
        """The visible text of the token that opens a thinking block."""
        return self._marker(0)

    @property
    def reasoning_end_str(self) -> str | None:
        """The visible text of the token that closes it."""
        return self._marker(1)

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether content follows these tokens."""
        return self._frontend.start_frame(input_ids) == "content"

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The tokens behind the thinking block."""
        ids = self._frontend.thinking_ids
        return input_ids[input_ids.index(ids[1]) + 1 :] if ids is not None and ids[1] in input_ids else []

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """Never asked: the composed parser reads outputs."""
        raise NotImplementedError

    def extract_reasoning_streaming(self, *args: Any, **kwargs: Any) -> None:
        """Never asked: the composed parser reads outputs."""
        raise NotImplementedError

    def _marker(self, which: int) -> str | None:
        ids = self._frontend.thinking_ids
        return None if ids is None else self.model_tokenizer.convert_ids_to_tokens([ids[which]])[0]


class NinferToolParser(ToolParser):
    """Stands for the composed parser where the host asks whether calls can be read."""

    supports_required_and_named = False
