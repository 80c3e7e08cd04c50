"""A library of its own: regular constraints as token masks, greedy choice, sampling and sure finishing."""

from ninfer_vllm.automata.bytedfa import DEAD
from ninfer_vllm.guide.guide import Guide, Sample
from ninfer_vllm.guide.lifting import ENDED, Allowed
from ninfer_vllm.guide.plain import plain_vocabulary

__all__ = ["DEAD", "ENDED", "Allowed", "Guide", "Sample", "plain_vocabulary"]
