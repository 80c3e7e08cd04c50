"""The worker's sampler: constrained rows are sampled by us, exactly; every other row by the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from ninfer_vllm.host.options import options_of
from ninfer_vllm.host.own_processors import own_processed
from ninfer_vllm.host.row_faults import report_faults
from ninfer_vllm.host.seeded_rows import without_discarded
from ninfer_vllm.host.worker_step import NO_TOKEN, begin_step, current_step, sampling


def sample_tokens(original: Callable[..., Any]) -> Callable[..., Any]:
    """Mask the constrained rows and sample them by the contract while the host's own function runs."""

    @wraps(original)
    def sample(self: Any, grammar_output: Any) -> Any:
        if self.execute_model_state is None or options_of(self.vllm_config) is None:
            return original(self, grammar_output)
        with without_discarded(self):
            if grammar_output is None:
                return original(self, None)
            step = begin_step(self, grammar_output)
            with sampling(step):
                output = original(self, None)
        if step.faults:
            report_faults(output, step.faults)
        return output

    return sample


def draw(original: Callable[..., Any]) -> Callable[..., Any]:
    """Tokens of a plain step, or the logits that a bonus token is drawn from."""

    @wraps(original)
    def sample(self: Any, logits: torch.Tensor, sampling_metadata: Any, *args: Any, **kwargs: Any) -> Any:
        step = current_step()
        if step is None:
            return original(self, logits, sampling_metadata, *args, **kwargs)
        step.keep_last(own_processed(logits, sampling_metadata))
        if step.is_whole_batch(len(logits)) and not self.logprobs_mode.startswith("processed"):
            tokens, processed = torch.zeros(len(logits), dtype=torch.int64, device=logits.device), None
        else:
            tokens, processed = original(self, logits, sampling_metadata, *args, **kwargs)
        if not step.is_drafted:
            step.sample(tokens)
        return tokens, processed

    return sample


def keep_drafted(original: Callable[..., Any]) -> Callable[..., Any]:
    """The logits of the positions that verify drafts, behind penalties and before temperature."""

    @wraps(original)
    def apply(self: Any, logits: torch.Tensor, sampling_metadata: Any, metadata: Any) -> torch.Tensor:
        processed: torch.Tensor = original(self, logits, sampling_metadata, metadata)
        step = current_step()
        if step is not None:
            step.keep_drafted(processed, metadata.num_draft_tokens)
        return processed

    return apply


def verify(original: Callable[..., Any]) -> Callable[..., Any]:
    """Accepted drafts, corrections and bonus tokens of constrained rows."""

    @wraps(original)
    def rejection_sample(
        draft_token_ids: torch.Tensor,
        num_draft_tokens: list[int],
        max_spec_len: int,
        cu_num_draft_tokens: torch.Tensor,
        draft_probs: torch.Tensor | None,
        target_logits: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        step = current_step()
        given = (draft_token_ids, num_draft_tokens, max_spec_len, cu_num_draft_tokens, draft_probs, target_logits)
        tokens: torch.Tensor
        if step is not None and step.is_whole_batch(len(num_draft_tokens)):
            shape = (len(num_draft_tokens), max_spec_len + 1)
            tokens = torch.full(shape, NO_TOKEN, dtype=torch.int32, device=target_logits.device)
        else:
            tokens = original(*given, *args, **kwargs)
        if step is not None:
            step.verify(draft_token_ids, num_draft_tokens, draft_probs, tokens)
        return tokens

    return rejection_sample


def with_room_for_faults(original: Any) -> Any:
    """The same class, with a default for the faults of rows."""
    original.ninfer_row_faults = None
    return original
