"""`python -m tests.support.v2_kernels`: the kernels of the host's V2 runner in Triton's interpreter; prints JSON.

The V2 runner needs a GPU. Its rejection kernels run on CPU tensors in the interpreter, given a stand-in for the driver
that they look for; its mask kernel does not.
"""

from __future__ import annotations

import json
import math
import os
import sys
import types
from collections import Counter

import torch

SIZE = 40
A, B, X = 0, 1, 37
NUM_ROWS = 150
POSITION = 10


class _Driver:
    """Says that it is there; the interpreter asks it for nothing else."""

    @staticmethod
    def is_active() -> bool:
        return True


def main() -> None:
    """Counts of first tokens: drafts as proposed, with and without a proposal distribution, sampled and greedy."""
    os.environ["TRITON_INTERPRET"] = "1"
    import triton.backends

    triton.backends.backends.setdefault("cpu", types.SimpleNamespace(driver=_Driver, compiler=None))
    from vllm.triton_utils import tl
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler_utils as host

    # The interpreter has no library of device functions.
    host.tldevice = types.SimpleNamespace(log1p=lambda value: tl.log(1.0 + value))
    torch.manual_seed(0)
    logits = masked_logits()
    found = {
        "sparse": counted(host, logits, is_sparse=True, temperature=1.0),
        "one-hot": counted(host, logits, is_sparse=False, temperature=1.0),
        "greedy": counted(host, logits, is_sparse=False, temperature=0.0),
    }
    json.dump({"finite": logits[0].isfinite().nonzero().flatten().tolist(), "counts": found}, sys.stdout)


def masked_logits() -> torch.Tensor:
    """Logits of two positions a row, masked by our kernel: the host's own does not run in the interpreter."""
    from ninfer_kernels.masking import apply_mask

    from tests.support.logits import packed

    rows = 2 * NUM_ROWS
    logits = torch.zeros(rows, SIZE)
    logits[:, X] = 5.0
    legal = torch.zeros(1, SIZE, dtype=torch.bool)
    legal[0, [A, B]] = True
    apply_mask(logits, packed(legal).repeat(rows, 1), torch.arange(rows, dtype=torch.int32), block=64)
    return logits


def counted(host: types.ModuleType, logits: torch.Tensor, *, is_sparse: bool, temperature: float) -> dict[int, int]:
    """One draft a row, equally likely legal and illegal, left as it was proposed."""
    drafted = torch.tensor([A, X])[torch.randint(2, (NUM_ROWS,))]
    drafts = torch.zeros(2 * NUM_ROWS, dtype=torch.int32)
    drafts[1::2] = drafted.to(torch.int32)
    proposal = torch.full((NUM_ROWS, 1, SIZE), -math.inf)
    proposal[:, :, [A, X]] = math.log(0.5)
    index = torch.arange(NUM_ROWS, dtype=torch.int32)
    within = torch.arange(2 * NUM_ROWS) % 2
    tokens, _ = host.rejection_sample(
        logits.clone(), proposal if is_sparse else None, drafts, torch.arange(NUM_ROWS + 1, dtype=torch.int32) * 2,
        within + POSITION, index, index.repeat_interleave(2), within.to(torch.int32),
        torch.full((NUM_ROWS,), temperature), torch.randint(0, 2**31, (NUM_ROWS,)), 1,
    )  # fmt: skip
    return dict(Counter(tokens[:, 0].tolist()))


if __name__ == "__main__":
    main()
