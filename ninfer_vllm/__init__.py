"""Exact constrained decoding for vLLM."""

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConstraintError

__all__ = ["ConstraintError", "OutputConstraint"]
