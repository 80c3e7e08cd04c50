"""Exact constrained decoding for vLLM."""

from ninfer_vllm.constraint import OutputConstraint, ToolChoice, ToolConstraint
from ninfer_vllm.errors import ConstraintError

__all__ = ["ConstraintError", "OutputConstraint", "ToolChoice", "ToolConstraint"]
