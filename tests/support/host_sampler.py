"""The host's own V1 sampler on bare tensors: as it is, or with the plugin's sampling patches bound."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from ninfer_patches.patch import split
from ninfer_patches.sampling_cpu import rebind_beside_numba
from ninfer_patches.sampling_patches import SAMPLING

from ninfer_vllm.host.worker_step import ConstrainedStep, Row, sampling, starts_of
from ninfer_vllm.sampling.parameters import Parameters

RUNNER = "vllm.v1.worker.gpu_model_runner"


@contextmanager
def sampling_patches(*, only_repairs: bool = False) -> Iterator[None]:
    """The host's samplers with our patches bound; `only_repairs` binds those of the CPU's kernels alone."""
    with pytest.MonkeyPatch.context() as patch:
        for one in SAMPLING:
            module, name = split(one.target)
            if module == RUNNER or (only_repairs and "cpu_triton_utils" not in module):
                continue
            owner: Any = importlib.import_module(module)
            *classes, attribute = name.split(".")
            for part in classes:
                owner = getattr(owner, part)
            build_module, build = split(one.replacement)
            bound = getattr(importlib.import_module(build_module), build)(vars(owner)[attribute])
            patch.setattr(owner, attribute, bound)
        register_cpu_kernels()
        yield
    register_cpu_kernels()


def register_cpu_kernels() -> None:
    """As the host's worker does when it starts."""
    from vllm.platforms import current_platform
    from vllm.triton_utils import dispatcher

    for needed in ("vllm.v1.spec_decode.utils", "vllm.v1.worker.block_table", "vllm.v1.worker.mamba_utils"):
        importlib.import_module(needed)
    current_platform.import_kernels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "_rebind_kernels", rebind_beside_numba(dispatcher._rebind_kernels))
        current_platform.register_triton_kernel_overrides()


@dataclass(frozen=True, slots=True)
class Settings:
    """Sampling parameters of every row of a batch."""

    parameters: Parameters = field(default_factory=Parameters)
    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0
    prompt: tuple[int, ...] = ()
    output: tuple[int, ...] = ()
    logprobs: int | None = None


def metadata_of(count: int, settings: Settings, size: int, drafts: Sequence[Sequence[int]] | None = None) -> Any:
    """The host's sampling metadata for `count` equal rows."""
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.metadata import SamplingMetadata

    def column(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.full((count,), value, dtype=dtype)

    wanted = settings.parameters
    plain = (settings.presence, settings.frequency, settings.repetition) == (0.0, 0.0, 1.0)
    prompt = torch.tensor([settings.prompt or (size,)] * count)
    return SamplingMetadata(
        temperature=None if wanted.is_greedy else column(wanted.temperature), all_greedy=wanted.is_greedy,
        all_random=not wanted.is_greedy, top_p=column(wanted.top_p) if wanted.top_p < 1 else None,
        top_k=column(wanted.top_k, torch.int32) if wanted.top_k else None, generators={},
        max_num_logprobs=settings.logprobs, no_penalties=plain, prompt_token_ids=prompt,
        frequency_penalties=column(settings.frequency), presence_penalties=column(settings.presence),
        repetition_penalties=column(settings.repetition), output_token_ids=[list(settings.output)] * count,
        allowed_token_ids_mask=None, bad_words_token_ids={}, logitsprocs=LogitsProcessors(),
        spec_token_ids=None if drafts is None else [list(row) for row in drafts],
    )  # fmt: skip


def run_step(
    logits: torch.Tensor,
    drafts: Sequence[Sequence[int]],
    proposal: torch.Tensor | None,
    settings: Settings,
    *,
    constrained: bool,
    seeds: Sequence[int] | None = None,
    num_masked: int | None = None,
) -> Any:
    """One step of the host's rejection sampler (of its sampler, where nothing is drafted): its output, and our step.

    Shapes: logits [rows + drafts, V], masked; proposal [drafts, V].
    """
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.sample.sampler import Sampler
    from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

    sampler, count = Sampler(), len(drafts)
    wanted = metadata_of(count, settings, logits.shape[1], drafts)
    lengths = [len(row) for row in drafts]
    firsts = starts_of([length + 1 for length in lengths])
    seeds = range(count) if seeds is None else seeds
    rows = [
        Row(str(at), at, firsts[at], lengths[at], settings.parameters, seeds[at], len(settings.output), num_masked)
        for at in range(count)
    ]
    step = ConstrainedStep(rows, set(), is_drafted=any(lengths))

    def call() -> Any:
        if not step.is_drafted:
            return sampler(logits, wanted)
        sampled = torch.tensor(lengths) + 1
        last = torch.tensor(firsts) + sampled - 1
        targets = [first + at for first, length in zip(firsts, lengths, strict=True) for at in range(length)]
        meta = SpecDecodeMetadata(
            torch.tensor([token for row in drafts for token in row], dtype=torch.int32), lengths,
            (sampled - 1).cumsum(0).to(torch.int32), sampled.cumsum(0).to(torch.int32), torch.tensor(targets), last,
            torch.arange(len(logits)),
        )  # fmt: skip
        return RejectionSampler(sampler, None, torch.device("cpu"))(meta, proposal, logits, wanted)

    if not constrained:
        return call(), step
    with sampling(step):
        return call(), step
