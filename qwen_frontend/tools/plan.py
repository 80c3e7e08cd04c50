"""`QwenToolPlan`: what the lowering of a request's tools needs, from its contract and the model's control tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.grammar.ir import Grammar
from qwen_frontend.tools.contract import ToolContract
from qwen_frontend.tools.grammar import lower_tools


@dataclass(frozen=True, slots=True, eq=False)
class QwenToolPlan:
    """A `ToolPlan` of this family."""

    contract: ToolContract
    open_id: int
    close_id: int

    @property
    def body(self) -> OutputConstraint | None:
        """What the content must be."""
        return self.contract.body

    @property
    def has_calls(self) -> bool:
        """Whether any tool may be called."""
        return bool(self.contract.callable)

    @property
    def is_enforced(self) -> bool:
        """Whether the output is constrained at all."""
        return self.contract.is_enforced

    def identity(self) -> Iterator[str]:
        """What decides the language, body aside."""
        yield from (str(self.open_id), str(self.close_id))
        yield from self.contract.identity()

    def lower(self, body: Grammar | None) -> Grammar:
        """The grammar of the output.

        Errors: ConstraintError, with the place in the list of tools.
        """
        return lower_tools(self.contract, body, self.open_id, self.close_id)
