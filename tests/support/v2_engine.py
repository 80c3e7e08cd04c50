"""`python -m tests.support.v2_engine`: a real engine on the host's V2 runner, interpreted; prints answers as JSON.

The host takes Triton's interpreter for a Triton that runs on this machine, so its V2 runner starts, with a draft model
that proposes what it finds likeliest: its kernel that samples drafts is not taken by the interpreter. Every kernel of a
step is interpreted, so requests are few and short.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tests.support.v2_sampler import interpret

CHOICES = ("the cat sat", "the dog ran")
SAMPLED = {"temperature": 1.0, "max_tokens": 8, "seed": 3}
GREEDY = {"temperature": 0.0, "max_tokens": 8}
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_V2_MODEL_RUNNER": "1",
}
SMALL = {"max_model_len": 64, "max_num_seqs": 4, "max_num_batched_tokens": 64, "gpu_memory_utilization": 0.3}


def main() -> None:
    """Answers by name, and what was drafted."""
    os.environ.update(ENVIRONMENT)
    interpret()
    from vllm import LLM

    from ninfer_vllm.embedded import build

    tiny = str(build("tiny-qwen3"))
    drafting = {
        "method": "draft_model", "model": tiny, "num_speculative_tokens": 2, "draft_sample_method": "greedy",
    }  # fmt: skip
    options = {"enforce_eager": True, "dtype": "float32", "additional_config": {"ninfer": {}}, **SMALL}
    llm = LLM(tiny, speculative_config=drafting, **options)
    print(json.dumps(answers(llm)), file=sys.stdout)


def answers(llm: Any) -> dict[str, Any]:
    """One batch of four requests: chosen greedily and by chance, failing in the worker, and without a constraint."""
    from ninfer_vllm.constraint import OutputConstraint
    from tests.support.drafts import watching
    from tests.support.engine import Ask, generate

    choice = OutputConstraint.choice(list(CHOICES))
    asks = {
        "greedy": Ask("the cat", choice, GREEDY),
        "sampled": Ask("the cat", choice, SAMPLED),
        # No way of the choice begins with this token.
        "failing": Ask("the cat", choice, {**SAMPLED, "allowed_token_ids": [17]}),
        "free": Ask("one two", None, {**GREEDY, "max_tokens": 3}),
    }
    with watching(llm) as seen:
        found = [answer.only for answer in generate(llm, list(asks.values()))]
    told = {
        name: {
            "text": one.text,
            "num_tokens": len(one.token_ids),
            "finish": one.finish_reason,
            "stop": one.stop_reason,
            "is_constrained": one.constraint is not None,
        }
        for name, one in zip(asks, found, strict=True)
    }
    is_v2 = llm.llm_engine.vllm_config.use_v2_model_runner
    return {"answers": told, "num_verified": len(seen.scheduled), "is_v2": is_v2}


if __name__ == "__main__":
    main()
