"""Modes of the host that sample by other rules than the target's, or hide what became of a row (SPC-8, ERR-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_vllm.errors import InvalidOption

if TYPE_CHECKING:
    from vllm.config import VllmConfig

EXACT_METHODS = ("standard", "block")
"""Methods that leave the target distribution as it is."""


def refuse_lossy_acceptance(config: VllmConfig) -> None:
    """Stop an engine whose constrained rows would not follow the masked target, or whose faults would be lost.

    Errors: InvalidOption.
    """
    speculation = config.speculative_config
    if speculation is not None and speculation.rejection_sample_method not in EXACT_METHODS:
        raise InvalidOption("speculative_config.rejection_sample_method", repr(speculation.rejection_sample_method))
    if config.parallel_config.enable_batch_sharded_sampling:
        # Each process samples some of the requests, and the host gathers their tokens alone.
        raise InvalidOption("enable_batch_sharded_sampling", "True")
    if config.watermark_config is not None:
        # A watermark is in the choice of tokens, which is ours.
        raise InvalidOption("watermark_config", config.watermark_config.algorithm)
