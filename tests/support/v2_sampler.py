"""`python -m tests.support.v2_sampler`: sampling of the host's V2 runner in Triton's interpreter; prints JSON.

The V2 runner needs a GPU, or a build of Triton for CPUs. Here its own classes (the runner's `sample`, mask worker,
sampler, rejection sampler, asynchronous output) run on CPU tensors in the interpreter, with our patches bound. What
is sampled is told by `BATCHES`, from which a test computes what should come.
"""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

SIZE = 40
MOST_DRAFTS = 3
A, B, X = 0, 1, 37
TEXTBOOK_ROWS = 120
PENALTIES = {"presence": 0.4, "frequency": 0.3, "repetition": 1.3}
PROMPT, OUTPUT = (2, 3, 5), (4, 4, 6)
"""Of every request: its tokens before the step."""
POSITION = len(PROMPT) + len(OUTPUT)


@dataclass(frozen=True)
class Row:
    """One request in a step: a row of logits, and of legal tokens, for each draft and one more."""

    logits: np.ndarray
    legal: list[list[int]]
    """Empty for a request without a constraint."""
    drafts: list[int] = field(default_factory=list)
    proposal: np.ndarray | None = None
    """Logits [drafts, V] that the drafts were sampled from."""
    sampling: dict[str, Any] = field(default_factory=dict)
    is_penalised: bool = False


class _Driver:
    """Says that it is there; the interpreter asks it for nothing else."""

    @staticmethod
    def is_active() -> bool:
        return True


def interpret() -> None:
    """Let the host take Triton's interpreter for a Triton that runs on this machine; before it is imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    import triton.backends

    triton.backends.backends.setdefault("cpu", types.SimpleNamespace(driver=_Driver, compiler=None))
    import vllm.v1.worker.cpu.shm  # noqa: F401 - the host's own stand-ins for streams and pinned memory
    from vllm.triton_utils import tl
    from vllm.v1.sample.ops import topk_topp_sampler
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler_utils

    # The interpreter has no library of device functions, and does not run the host's kernel of top-k and top-p.
    topk_topp_sampler.HAS_TRITON = False
    rejection_sampler_utils.tldevice = types.SimpleNamespace(log1p=lambda value: tl.log(1.0 + value))


def mixed(*, num_drafts: int, is_sampled: bool) -> list[Row]:
    """Requests of every setting: drafts legal and illegal at each place, ties, penalties, no constraint."""
    generator = np.random.default_rng(2)
    settings: list[dict[str, Any]] = [
        {"temperature": 1.0}, {"temperature": 0.0}, {"temperature": 0.7, "top_k": 5},
        {"temperature": 1.5, "min_p": 0.1}, {"temperature": 0.9, "top_k": 9, "min_p": 0.02, "top_p": 0.8},
    ]  # fmt: skip
    rows = []
    for at in range(18):
        count = min((3, 1, 3, 0, 2, 3)[at % 6], num_drafts)
        logits = np.float32(generator.normal(size=(count + 1, SIZE)) * 2)
        if at % 7 == 3:
            logits = np.float32(np.round(logits))
        legal = [sorted(generator.choice(SIZE, size=12, replace=False).tolist()) for _ in range(count + 1)]
        proposal = np.float32(generator.normal(size=(count, SIZE)) * 2)
        drafts = []
        for place in range(count):
            # Mostly what the target likes best, so that later places are reached; else any token.
            best = max(legal[place], key=lambda token, row=logits[place]: row[token])
            drafts.append(best if generator.random() < 0.7 else int(generator.integers(SIZE)))
            proposal[place, drafts[-1]] += 4
        sampling = {**settings[at % len(settings)], "seed": at * 1000 - 7}
        own = proposal if is_sampled and count else None
        rows.append(Row(logits, [] if at % 6 == 5 else legal, drafts, own, sampling, at % 4 == 1))
    return rows


def textbook() -> list[Row]:
    """p = 1/2 each for a and b, drafts 1/2 each a and x, and x illegal."""
    generator = np.random.default_rng(1)
    logits = np.zeros((2, SIZE), dtype=np.float32)
    logits[:, X] = 5.0
    proposal = np.full((1, SIZE), -np.inf, dtype=np.float32)
    proposal[0, [A, X]] = 0.0
    drafts = generator.choice([A, X], size=TEXTBOOK_ROWS).tolist()
    return [
        Row(logits, [[A, B]] * 2, [draft], proposal, {"temperature": 1.0, "seed": at})
        for at, draft in enumerate(drafts)
    ]


def faulty() -> list[Row]:
    """Rows without a candidate: unsound logits, nothing left; reached at once, behind a draft, not reached."""
    sound = np.full(SIZE, -3.0, dtype=np.float32)
    sound[3] = 5.0
    legal, seed = [3, 4], {"temperature": 1.0, "seed": 5}
    found = []
    for value in (np.nan, np.inf, -np.inf):
        broken = np.full(SIZE, value, dtype=np.float32)
        found += [
            Row(np.stack([broken, sound]), [legal] * 2, [3], None, seed),
            Row(np.stack([sound, broken]), [legal] * 2, [3], None, {"temperature": 0.0}),
            Row(np.stack([sound, broken]), [legal] * 2, [9], None, seed),
        ]
    banned = {**seed, "allowed_token_ids": [7]}
    found += [Row(np.stack([sound, sound]), [legal] * 2, [3], None, banned), Row(np.stack([sound]), [], [], None, seed)]
    illegal_nan = sound.copy()
    illegal_nan[20] = np.nan
    return [*found, Row(np.stack([illegal_nan]), [legal], [], None, seed)]


BATCHES: dict[str, Callable[[], list[Row]]] = {
    "plain": lambda: mixed(num_drafts=0, is_sampled=False),
    "one-hot": lambda: mixed(num_drafts=MOST_DRAFTS, is_sampled=False),
    "sampled": lambda: mixed(num_drafts=MOST_DRAFTS, is_sampled=True),
    "textbook": textbook,
    "faulty": faulty,
}


MOST_LOGITS = {"sampled": 20}
"""A batch with more rows of logits than that is sampled in parts."""


def main() -> None:
    """Tokens, faults and log probabilities of every batch."""
    interpret()
    bind()
    json.dump({name: step(rows(), most_logits=MOST_LOGITS.get(name)) for name, rows in BATCHES.items()}, sys.stdout)


def bind() -> None:
    """Bind the patches of the V2 sampler."""
    import vllm
    from ninfer_patches.install import install
    from ninfer_patches.sampling_device_patches import SAMPLING_ON_DEVICE
    from ninfer_patches.sampling_patches import SAMPLING

    install((*SAMPLING, *SAMPLING_ON_DEVICE), vllm)


def step(rows: list[Row], most_logits: int | None = None) -> dict[str, Any]:
    """One step of the runner's sampling."""
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.worker.gpu.async_utils import AsyncOutput
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler

    rejection_sampler.get_max_chunk_logits = lambda width: most_logits or 1 << 20
    runner, batch, hidden = assembled(rows)
    masks = masks_of(rows, batch.req_ids) if any(row.legal for row in rows) else None
    output, num_sampled, _ = runner.sample(hidden, batch, masks)
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    result = AsyncOutput(
        model_runner_output=ModelRunnerOutput(batch.req_ids, {}), sampler_output=output,
        num_sampled_tokens=num_sampled, main_stream=streams[0], copy_stream=streams[1], check_ep_fault=False,
        pending_aux_output=None,
    ).get_output()  # fmt: skip
    logprobs = result.logprobs
    return {
        "tokens": result.sampled_token_ids,
        "faults": getattr(result, "ninfer_row_faults", None) or {},
        "logprobs": None if logprobs is None else np.exp(logprobs.logprobs[:, 0]).tolist(),
        "logprob_ids": None if logprobs is None else logprobs.logprob_token_ids[:, 0].tolist(),
    }


def assembled(rows: list[Row]) -> tuple[Any, Any, torch.Tensor]:
    """The host's V2 runner with the parts that sampling needs, a batch of the requests, and its hidden states.

    The model is the identity: hidden states are logits.
    """
    from vllm.config import SpeculativeConfig, VllmConfig
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner
    from vllm.v1.worker.gpu.sample.sampler import Sampler
    from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler
    from vllm.v1.worker.gpu.states import RequestState
    from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker

    device, count = torch.device("cpu"), len(rows)
    config = VllmConfig(additional_config={"ninfer": {}})
    states = RequestState(count + 2, 64, 4096, MOST_DRAFTS, SIZE, device)
    sampler = Sampler(config, count + 2, SIZE, device, states, num_speculative_tokens=MOST_DRAFTS)
    speculation = SpeculativeConfig(
        method="ngram", num_speculative_tokens=MOST_DRAFTS, prompt_lookup_min=1, prompt_lookup_max=2
    )
    add_requests(states, sampler, rows)
    runner = object.__new__(GPUModelRunner)
    runner.vllm_config, runner.sampler, runner.batch_sharder = config, sampler, None
    runner.rejection_sampler = RejectionSampler(sampler, speculation, device)
    runner.structured_outputs_worker = StructuredOutputsWorker(
        max_num_logits=(count + 2) * (MOST_DRAFTS + 1), vocab_size=SIZE, device=device, mask_stride=MOST_DRAFTS + 1,
        num_bonus_tokens=1,
    )  # fmt: skip
    runner.model = types.SimpleNamespace(compute_logits=lambda hidden: hidden)
    batch = batch_of(states, rows)
    proposals = torch.full((count + 2, MOST_DRAFTS, SIZE), torch.nan)
    for row, place in zip(rows, batch.idx_mapping_np, strict=True):
        if row.proposal is not None:
            proposals[place, : len(row.drafts)] = torch.from_numpy(row.proposal)
    is_sampled = any(row.proposal is not None for row in rows)
    runner.speculator = types.SimpleNamespace(draft_logits=proposals if is_sampled else None)
    return runner, batch, torch.from_numpy(np.concatenate([row.logits for row in rows]))


def add_requests(states: Any, sampler: Any, rows: list[Row]) -> None:
    """Each request with its prompt and output so far; the last token was sampled by the step before."""
    from vllm import SamplingParams

    for at, row in enumerate(rows):
        states.add_request(str(at), len(PROMPT), [*PROMPT, *OUTPUT[:-1]], POSITION - 1, 64)
        place = states.req_id_to_index[str(at)]
        penalties = {f"{name}_penalty": value for name, value in PENALTIES.items()} if row.is_penalised else {}
        sampler.add_request(place, SamplingParams(**row.sampling, **penalties, logprobs=0))
    states.apply_staged_writes()
    sampler.apply_staged_writes()
    for row, place in zip(rows, states.req_id_to_index.values(), strict=True):
        sampler.penalties_state.output_bin_counts[place, OUTPUT[-1]] += row.is_penalised


def batch_of(states: Any, rows: list[Row]) -> Any:
    """The host's description of the step."""
    from vllm.v1.worker.gpu.input_batch import InputBatch, InputBuffers

    counts = [len(row.drafts) + 1 for row in rows]
    starts = np.cumsum([0, *counts], dtype=np.int32)
    places = np.array([states.req_id_to_index[str(at)] for at in range(len(rows))])
    dummy = InputBatch.make_dummy(len(rows), len(rows), InputBuffers(len(rows) + 2, 4096, torch.device("cpu")))
    within = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
    tokens = [token for row in rows for token in (OUTPUT[-1], *row.drafts)]
    drafted = starts[-1] - len(rows)
    return replace(
        dummy, req_ids=[str(at) for at in range(len(rows))], idx_mapping=torch.from_numpy(places),
        idx_mapping_np=places, expanded_idx_mapping=torch.from_numpy(np.repeat(places, counts)),
        expanded_local_pos=torch.from_numpy(within), num_draft_tokens=int(drafted),
        num_draft_tokens_per_req=np.array(counts, dtype=np.int32) - 1 if drafted else None,
        seq_lens=torch.tensor([POSITION + count - 1 for count in counts], dtype=torch.int32),
        seq_lens_cpu_upper_bound=torch.tensor([POSITION + count - 1 for count in counts], dtype=torch.int32),
        input_ids=torch.tensor(tokens, dtype=torch.int32),
        positions=torch.from_numpy(within).to(torch.int64) + POSITION - 1,
        logits_indices=torch.arange(int(starts[-1])), cu_num_logits=torch.from_numpy(starts), cu_num_logits_np=starts,
        has_structured_output_reqs=True,
    )  # fmt: skip


def masks_of(rows: list[Row], request_ids: list[str]) -> Any:
    """Masks of the constrained requests, in another order than the batch's."""
    from vllm.v1.core.sched.output import GrammarOutput

    from ninfer_vllm.host.host_version import FIXED_MASK_STRIDE
    from tests.support.logits import packed

    ids, words = [], []
    for request_id, row in reversed(list(zip(request_ids, rows, strict=True))):
        if row.legal:
            legal = torch.zeros(MOST_DRAFTS + 1 if FIXED_MASK_STRIDE else len(row.legal), SIZE, dtype=torch.bool)
            for own, allowed in zip(legal, row.legal, strict=False):
                own[allowed] = True
            ids.append(request_id)
            words.append(packed(legal).numpy())
    return GrammarOutput(ids, np.concatenate(words), [len(rows[int(one)].drafts) for one in ids])


if __name__ == "__main__":
    main()
