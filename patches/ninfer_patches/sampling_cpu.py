"""The host's stand-ins for Triton kernels on a CPU, where they read or write what is not theirs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def expand(original: Callable[..., Any]) -> Callable[..., Any]:
    """Write a request's parameter to each of its drafted positions; the host writes into a copy that it drops."""

    @wraps(original)
    def kernel(
        output: torch.Tensor,
        input_val: torch.Tensor,
        cu_num_tokens: torch.Tensor,
        replace_from: int,
        replace_to: int,
        MAX_NUM_TOKENS: int | None = None,  # noqa: N803 - the host passes it by name
    ) -> None:
        ends = cu_num_tokens.long()
        values = torch.where(input_val == replace_from, torch.full_like(input_val, replace_to), input_val)
        output.copy_(values.repeat_interleave(torch.diff(ends, prepend=ends.new_zeros(1))))

    return kernel


def reject_padding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Reject draft -1; the host looks its probability up in front of the row."""

    @wraps(original)
    def kernel(  # noqa: PLR0917 - the order of the kernel's own arguments
        output_token_ids: torch.Tensor,
        cu_num_draft_tokens: torch.Tensor,
        draft_token_ids: torch.Tensor,
        draft_probs: torch.Tensor | None,
        target_probs: torch.Tensor,
        bonus_token_ids: torch.Tensor,
        recovered_token_ids: torch.Tensor,
        uniform_probs: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        padding = draft_token_ids < 0
        # No ratio of probabilities reaches an infinite bound.
        bounds = uniform_probs.masked_fill(padding, float("inf"))
        drafts = draft_token_ids.masked_fill(padding, 0)
        given = (output_token_ids, cu_num_draft_tokens, drafts, draft_probs, target_probs, bonus_token_ids)
        original(*given, recovered_token_ids, bounds, *args, **kwargs)

    return kernel


def recover_without_padding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Draw what replaces draft -1 from the whole target; the host takes probability from in front of the row."""

    @wraps(original)
    def kernel(
        output_token_ids: torch.Tensor,
        cu_num_draft_tokens: torch.Tensor,
        draft_token_ids: torch.Tensor,
        draft_probs: torch.Tensor | None,
        target_probs: torch.Tensor,
        inv_q: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        padding = draft_token_ids < 0
        drafts = draft_token_ids.masked_fill(padding, 0)
        original(output_token_ids, cu_num_draft_tokens, drafts, draft_probs, target_probs, inv_q, *args, **kwargs)
        ends = cu_num_draft_tokens.long()
        counts = torch.diff(ends, prepend=ends.new_zeros(1))
        owner = torch.arange(len(ends)).repeat_interleave(counts)
        for at in padding.nonzero().flatten().tolist():
            output_token_ids[at] = (target_probs[at] * inv_q[owner[at]]).argmax()

    return kernel


def rebind_beside_numba(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep LLVM's library out of the host's search for kernels: it takes any attribute for a function to be loaded."""

    @wraps(original)
    def rebind(overrides: Any) -> Any:
        hidden = {name: sys.modules.pop(name) for name in _holders_of_llvm()}
        try:
            return original(overrides)
        finally:
            sys.modules.update(hidden)

    return rebind


def _holders_of_llvm() -> list[str]:
    ffi = sys.modules.get("llvmlite.binding.ffi")
    if ffi is None:
        return []
    return [
        name
        for name, module in list(sys.modules.items())
        if any(value is ffi.lib for value in list(getattr(module, "__dict__", {}).values()))
    ]
