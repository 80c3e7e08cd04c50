"""A sparse proposal distribution in place of a draft model's own, inside an engine that runs beside the tests."""

from __future__ import annotations

from typing import Any


def propose_sparsely(llm: Any, tokens: list[int]) -> None:
    """From now on every draft is one of `tokens`, equally likely, and the engine is told that distribution."""
    import torch
    from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer

    def sample(self: Any, logits: torch.Tensor, sampling_metadata: Any) -> tuple[torch.Tensor, torch.Tensor]:
        proposal = torch.zeros(logits.shape)
        proposal[:, tokens] = 1 / len(tokens)
        chosen = torch.tensor(tokens)[torch.randint(len(tokens), (len(logits),))]
        return chosen, proposal

    SpecDecodeBaseProposer._sample_from_logits = sample
