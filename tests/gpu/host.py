"""The host's kernels for the same work, where vLLM and xgrammar are installed and a GPU is there."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch

from tests.gpu.inputs import Inputs

Call = Callable[[], object]


def apply_mask(given: Inputs) -> Call | None:
    """xgrammar's in-place mask, which the host's V1 runner calls."""
    if not given.logits.is_cuda or find_spec("xgrammar") is None:
        return None
    import xgrammar

    logits = given.logits.clone()
    return lambda: xgrammar.apply_token_bitmask_inplace(logits, given.words)


def argmax(given: Inputs) -> Call | None:
    """The mask and then torch's argmax."""
    masked = apply_mask(given)
    if masked is None:
        return None
    return lambda: (masked(), given.logits.argmax(-1))


def top_k_top_p(given: Inputs) -> Call | None:
    """The host's Triton filter, in place."""
    if not _has_host(given):
        return None
    from vllm.v1.sample.ops.topk_topp_triton import apply_top_k_top_p_triton

    logits, top_k, top_p = given.logits.clone(), given.top_k, given.top_p
    return lambda: apply_top_k_top_p_triton(logits, top_k, top_p)


def rejection_one_hot(given: Inputs) -> Call | None:
    """The host's rejection sampler without a proposal distribution."""
    return _rejection(given, None)


def rejection_sparse(given: Inputs) -> Call | None:
    """The host's rejection sampler with one."""
    return _rejection(given, given.proposal.reshape(-1, given.shape.size))


def _rejection(given: Inputs, proposal: torch.Tensor | None) -> Call | None:
    if not _has_host(given) or given.shape.drafts == 0:
        return None
    from vllm.v1.sample.rejection_sampler import rejection_sample

    from tests.support.host_sampler import Settings, metadata_of

    batch, drafts, size = given.shape.batch, given.shape.drafts, given.shape.size
    metadata = metadata_of(batch, Settings(), size)
    metadata.temperature = metadata.temperature.to(given.logits.device)
    verified = given.logits.reshape(batch, drafts + 1, size)[:, :drafts].reshape(-1, size).contiguous()
    ends = (torch.arange(batch, device=given.logits.device, dtype=torch.int32) + 1) * drafts
    bonus = torch.zeros(batch, 1, dtype=torch.int32, device=given.logits.device)
    flat = given.drafts.reshape(-1)
    return lambda: rejection_sample(flat, [drafts] * batch, drafts, ends, proposal, verified, bonus, metadata)


def _has_host(given: Inputs) -> bool:
    return given.logits.is_cuda and find_spec("vllm") is not None
