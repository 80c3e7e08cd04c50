"""Logits processors that the deployment added, for rows that we sample ourselves."""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor.builtin import MinPLogitsProcessor

from ninfer_vllm.sampling.parameters import GREEDY_BELOW


def own_processed(logits: torch.Tensor, sampling_metadata: Any) -> torch.Tensor:
    """The logits behind the processors that the host applies between temperature and top-k, its own min-p excepted.

    The host lets them see logits divided by temperature, so they are divided for them and multiplied again. Without
    such processors, or in a greedy batch, the logits are returned as they are.
    """
    processors = [
        one for one in sampling_metadata.logitsprocs.argmax_invariant if not isinstance(one, MinPLogitsProcessor)
    ]
    if not processors or sampling_metadata.all_greedy:
        return logits
    heat = torch.where(sampling_metadata.temperature < GREEDY_BELOW, 1.0, sampling_metadata.temperature)
    processed = logits / heat.unsqueeze(1)
    for one in processors:
        processed = one.apply(processed)
    return processed * heat.unsqueeze(1)
