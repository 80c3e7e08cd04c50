"""`QwenFrontend`: where the output of a Qwen-style model starts, and which control tokens frame its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ninfer_vllm.constraint import Frame, ToolConstraint
from ninfer_vllm.errors import UnsupportedTemplate
from qwen_frontend.output import QwenOutputParser
from qwen_frontend.templates import CALL_CLOSE, CALL_OPEN, CLOSE, OPEN, TURN, Dialect, TemplateFacts, facts_of
from qwen_frontend.tools.contract import ToolContract, contract_of
from qwen_frontend.tools.parser import CallParser, Spelling
from qwen_frontend.tools.plan import QwenToolPlan


@dataclass(frozen=True, slots=True)
class QwenFrontend:
    """The phases and the tool dialect of one model (THK-2)."""

    facts: TemplateFacts
    thinking_ids: tuple[int, int] | None
    """Ids of `<think>` and `</think>`, where the template's prompts use them."""
    tool_ids: tuple[int, int] | None
    """Ids of `<tool_call>` and `</tool_call>`."""
    turn_id: int

    name = "qwen"

    @classmethod
    def recognise(cls, tokenizer: Any) -> QwenFrontend | None:
        """The frontend of a tokenizer whose chat template marks turns, and thinking or calls, as this family does."""
        control = tokenizer.get_added_vocab()
        if TURN not in control or not getattr(tokenizer, "chat_template", None):
            return None
        facts = facts_of(tokenizer)
        thinking = _pair(control, OPEN, CLOSE) if facts.thinks or facts.model_opens else None
        tools = _pair(control, CALL_OPEN, CALL_CLOSE)
        if thinking is None and (tools is None or facts.dialect is None):
            return None
        return cls(facts, thinking, tools, control[TURN])

    @property
    def dialect(self) -> Dialect | None:
        """The tool dialect that the chat template writes."""
        return self.facts.dialect

    def start_frame(self, prompt: Sequence[int]) -> Frame:
        """The frame of a generation prompt: only what follows the last turn marker counts.

        An open block is thinking, a closed one content; without any block the output is content, unless the model
        opens its thinking itself.

        Errors: UnsupportedTemplate where the template writes a thinking block in a way of its own.
        """
        if self.thinking_ids is None:
            return "content"
        if self.facts.thinking_finding is not None:
            raise UnsupportedTemplate("thinking", self.facts.thinking_finding)
        opened, closed = self.thinking_ids
        for token in reversed(prompt):
            if token == closed:
                return "content"
            if token == opened:
                return "thinking"
            if token == self.turn_id:
                break
        return "opening" if self.facts.model_opens else "content"

    def read_tools(self, constraint: ToolConstraint) -> QwenToolPlan:
        """The tools of a request in the model's dialect, or in the one that the request states.

        Errors: ConstraintError, with the place in the list of tools; UnsupportedTemplate where neither states a
        dialect, or the vocabulary has no tokens for calls.
        """
        if self.tool_ids is None:
            raise UnsupportedTemplate("calls", f"no tokens {CALL_OPEN} and {CALL_CLOSE} in the vocabulary")
        return QwenToolPlan(self._contract(constraint), *self.tool_ids)

    def output_parser(self, constraint: ToolConstraint | None, frame: Frame, spelling: Spelling) -> QwenOutputParser:
        """A parser of one output that starts at `frame`; without a constraint no tool can be called.

        Errors: as `read_tools`.
        """
        contract = None if constraint is None else self._contract(constraint)
        calls = CallParser(contract, self.tool_ids, spelling)
        return QwenOutputParser(frame, self.thinking_ids, calls, spelling)

    def _contract(self, constraint: ToolConstraint) -> ToolContract:
        dialect = constraint.dialect or self.dialect
        if dialect is None:
            raise UnsupportedTemplate("calls", self.facts.tool_finding)
        return contract_of(constraint, dialect)


def _pair(control: dict[str, int], opening: str, closing: str) -> tuple[int, int] | None:
    """The ids of two control tokens, if the vocabulary has both."""
    return (control[opening], control[closing]) if opening in control and closing in control else None
