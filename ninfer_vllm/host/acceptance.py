"""Modes of the host that accept drafts by other rules than the target's (SPC-8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_vllm.errors import InvalidOption

if TYPE_CHECKING:
    from vllm.config import VllmConfig

EXACT_METHODS = ("standard", "block")
"""Methods that leave the target distribution as it is."""


def refuse_lossy_acceptance(config: VllmConfig) -> None:
    """Stop an engine whose speculative decoding would not follow the masked target.

    Errors: InvalidOption.
    """
    speculation = config.speculative_config
    if speculation is not None and speculation.rejection_sample_method not in EXACT_METHODS:
        raise InvalidOption("speculative_config.rejection_sample_method", repr(speculation.rejection_sample_method))
