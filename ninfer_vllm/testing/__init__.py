"""Constraints without an engine or a model, for tests and benchmarks (API-9)."""

from ninfer_vllm.testing.probe import Probe
from ninfer_vllm.testing.walk import WalkTimings

__all__ = ["Probe", "WalkTimings"]
