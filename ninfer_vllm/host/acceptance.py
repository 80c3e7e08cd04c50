"""Modes of the host beside which rows would not follow the target, or faults or drafts be lost (SPC-8, ERR-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_vllm.errors import InvalidOption

if TYPE_CHECKING:
    from vllm.config import VllmConfig

EXACT_METHODS = ("standard", "block")
"""Methods that leave the target distribution as it is."""

CERTAIN_DRAFTS = ("ngram", "suffix")
"""Proposers whose drafts have no probabilities and leave nothing in a draft model: others may replace them."""


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


def refuse_lost_drafts(config: VllmConfig) -> None:
    """Stop an engine that was asked for grammar drafts where the host would not verify them as they are (SPC-10).

    They need drafts that pass through the scheduler: the V1 runner, synchronous scheduling, n-gram or suffix drafts.

    Errors: InvalidOption.
    """
    speculation = config.speculative_config
    if speculation is None or speculation.method not in CERTAIN_DRAFTS:
        method = None if speculation is None else speculation.method
        wanted = " or ".join(map(repr, CERTAIN_DRAFTS))
        raise InvalidOption("grammar_drafts", f"True beside speculative method {method!r} (needed: {wanted})")
    if config.scheduler_config.async_scheduling or config.use_v2_model_runner:
        raise InvalidOption("grammar_drafts", "True with asynchronous scheduling or the V2 runner")
