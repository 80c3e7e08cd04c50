"""A proposer for the host's `custom_class` method: drafts that a test has written down for a prompt."""

from __future__ import annotations

from typing import Any

DRAFTS: dict[tuple[int, ...], list[int]] = {}
"""Tokens so far (prompt and output) -> the drafts proposed behind them; nothing is proposed anywhere else."""

PROPOSED: list[tuple[tuple[int, ...], list[int]]] = []
"""Every proposal made: tokens so far, and the drafts."""


class Scripted:
    """Proposes what `DRAFTS` says."""

    def __init__(self, vllm_config: Any) -> None:
        self._limit = vllm_config.speculative_config.num_speculative_tokens

    def load_model(self, *arguments: Any, **options: Any) -> None:
        """There is no model."""

    def propose(
        self, sampled_token_ids: list[list[int]], num_tokens_no_spec: Any, token_ids_cpu: Any, slot_mappings: Any = None
    ) -> list[list[int]]:
        """The drafts of each row; a row that sampled nothing gets none."""
        proposals = []
        for row, sampled in enumerate(sampled_token_ids):
            so_far = tuple(int(token) for token in token_ids_cpu[row, : int(num_tokens_no_spec[row])])
            drafts = DRAFTS.get(so_far, [])[: self._limit] if sampled else []
            if drafts:
                PROPOSED.append((so_far, drafts))
            proposals.append(drafts)
        return proposals
