"""One engine measured end to end: tokens a second and time a token at several batch sizes (PRF-2).

Usage: python -m ninfer_vllm.host.measured_run MODE MODEL TOKENS BATCHES

`ninfer bench engine` starts one a mode: each engine has a process of its own, because it leaves settings behind there.
The last line on stdout is a JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams

from ninfer_vllm.constraint import OutputConstraint

MODES = ("unconstrained", "stock", "ninfer")
SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "minItems": 500,
}
"""So long that the token limit ends every output: all modes generate the same number of tokens."""


def run(mode: str, model: str, tokens: int, batches: list[int]) -> dict[str, Any]:
    """Measure one mode."""
    selected: dict[str, Any] = {"additional_config": {"ninfer": {}}} if mode == "ninfer" else {}
    engine = LLM(model, enforce_eager=True, max_model_len=tokens + 64, max_num_seqs=max(batches), **selected)
    params = SamplingParams(temperature=1.0, seed=1, max_tokens=tokens, ignore_eos=mode == "unconstrained")
    # What the engine compiles and allocates on its first request is no part of a rate.
    engine.generate(["warm-up"], _constrained(params, mode), use_tqdm=False)
    found = {}
    for size in batches:
        started = time.perf_counter()
        results = engine.generate(
            [f"People {number}: " for number in range(size)], _constrained(params, mode), use_tqdm=False
        )
        seconds = time.perf_counter() - started
        generated = sum(len(output.token_ids) for result in results for output in result.outputs)
        found[str(size)] = {
            "tokens": generated,
            "tokens_per_s": round(generated / seconds, 2),
            "token_ms": round(1000 * seconds * size / generated, 3),
        }
    engine.llm_engine.engine_core.shutdown()
    return {"mode": mode, "batches": found}


def _constrained(params: SamplingParams, mode: str) -> SamplingParams:
    chosen: Any = params.clone()
    if mode == "stock":
        chosen.structured_outputs = StructuredOutputsParams(json=SCHEMA)
    elif mode == "ninfer":
        chosen.structured_outputs = OutputConstraint.json_schema(SCHEMA)
    sampling: SamplingParams = chosen
    return sampling


if __name__ == "__main__":
    _mode, _model, _tokens, _batches = sys.argv[1:]
    print(json.dumps(run(_mode, _model, int(_tokens), [int(size) for size in _batches.split(",")])))  # noqa: T201
