"""Model families: which frontend knows a model's phases (FAM-1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

from ninfer_vllm.compiler.lowering import ToolPlan
from ninfer_vllm.constraint import Dialect, Frame, ToolConstraint
from ninfer_vllm.errors import ConflictingConstraint
from ninfer_vllm.host.events import OutputParser

GROUP = "ninfer_vllm.frontends"

Spelling = Callable[[int], bytes]
"""The bytes of a token."""


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

    @property
    def tool_ids(self) -> tuple[int, int] | None:
        """Ids of the tokens that begin and end a tool call, where the model has them."""

    @property
    def dialect(self) -> Dialect | None:
        """How the model writes tool calls, where that is known."""

    def read_tools(self, constraint: ToolConstraint) -> ToolPlan:
        """The tools of a request, ready to be lowered.

        Errors: ConstraintError where they, or tools altogether, are refused.
        """

    def output_parser(self, constraint: ToolConstraint | None, frame: Frame, spelling: Spelling) -> OutputParser:
        """A parser of one output; without a constraint no tool can be called.

        Errors: as `read_tools`.
        """


class GenericFrontend:
    """Every chat model without a family of its own: content starts at once."""

    name = "generic"
    thinking_ids = None
    tool_ids = None
    dialect = None

    def start_frame(self, prompt: Sequence[int]) -> Frame:
        """Content, whatever the prompt."""
        return "content"

    def read_tools(self, constraint: ToolConstraint) -> ToolPlan:
        """Refused: how the model writes calls is not known.

        Errors: ConflictingConstraint.
        """
        families = ", ".join(sorted(entry.name for entry in entry_points(group=GROUP)))
        raise ConflictingConstraint("tools", f"this model's tool calls are not understood; known families: {families}")

    def output_parser(self, constraint: ToolConstraint | None, frame: Frame, spelling: Spelling) -> OutputParser:
        """Refused: outputs of such models are the host's to read.

        Errors: ConflictingConstraint.
        """
        raise ConflictingConstraint("tools", "outputs of this model are read by the host's own parsers")


def state_template(tokenizer: Any, given: str | None) -> None:
    """Make the template that prompts are rendered with the tokenizer's own, which families are found by (THK-2).

    `given` is a file or the template itself; None where the tokenizer's own one is used.

    Errors: VLLMValidationError where the file cannot be read.
    """
    if given is not None and tokenizer is not None:
        from vllm.renderers.chat_utils import load_chat_template

        tokenizer.chat_template = load_chat_template(given)


def frontend_for(tokenizer: Any) -> Frontend:
    """The first registered family that recognises the tokenizer and its chat template, else the generic one."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        found: Frontend | None = entry.load().recognise(tokenizer)
        if found is not None:
            return found
    return GenericFrontend()
