"""One engine measured end to end: tokens a second and time between tokens at several batch sizes (PRF-2).

Usage: python -m ninfer_vllm.host.measured_run JSON

`ninfer bench engine` starts one for each back end and proposer: each engine has a process of its own, because it leaves
settings behind there. The argument has the fields of `Run`; the last line on stdout is a JSON object: by mode, by batch
size, what `measured` returns. An engine of the host also runs the unconstrained mode, so that it costs no start.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from vllm import LLM, SamplingParams
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.record import ConstraintRecord

Backend = Literal["xgrammar", "guidance", "ninfer"]
Drafts = Literal["none", "ngram", "model", "grammar"]

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

PROMPT_TOKENS = 64
"""Room for the prompts."""
NUM_DRAFTS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """What one engine is to do."""

    backend: Backend
    drafts: Drafts
    model: str
    draft_model: str
    tokens: int
    """Tokens an output."""
    batches: list[int]
    temperature: float


def run(asked: Run) -> dict[str, dict[str, Any]]:
    """Measure the modes of one engine."""
    engine = LLM(
        asked.model, enforce_eager=True, max_model_len=asked.tokens + PROMPT_TOKENS, max_num_seqs=max(asked.batches),
        **_options(asked),
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    for mode in ("unconstrained", asked.backend) if asked.backend == "xgrammar" else (asked.backend,):
        params = _params(asked, mode)
        # What the engine compiles and allocates on its first request is no part of a rate.
        measured(engine, ["warm-up"], params, is_ours=mode == "ninfer")
        found[mode] = {
            str(size): measured(
                engine, [f"People {number}: " for number in range(size)], params, is_ours=mode == "ninfer"
            )
            for size in asked.batches
        }
    engine.llm_engine.engine_core.shutdown()
    return found


def measured(engine: LLM, prompts: list[str], params: SamplingParams, *, is_ours: bool) -> dict[str, Any]:
    """Figures of one batch: tokens, tokens a second, and milliseconds at the middle and at the slow end.

    `first_token_ms` is the time to a request's first output. `inter_token_ms` is the time between a request's outputs;
    where drafts let one output hold several tokens, its time is divided among them. `cut_short` counts outputs that
    ended before the token limit; `constraint` is the record of the first request that ended, where the engine is ours.
    """
    arrivals: dict[str, list[tuple[float, int]]] = {}
    for number, prompt in enumerate(prompts):
        engine.llm_engine.add_request(str(number), prompt, params)
    record: ConstraintRecord | None = None
    started = time.perf_counter()
    while engine.llm_engine.has_unfinished_requests():
        for result in engine.llm_engine.step():
            (output,) = _samples_of(result)
            new = len(output.token_ids)
            if result.finished and is_ours and record is None:
                record = output.constraint
            if new:
                arrivals.setdefault(result.request_id, []).append((time.perf_counter(), new))
    seconds = time.perf_counter() - started
    lengths = [sum(new for _, new in of) for of in arrivals.values()]
    gaps = [
        (after - before) / new
        for of in arrivals.values()
        for (before, _), (after, new) in pairwise(of)
        for _ in range(new)
    ]
    return {
        "tokens": sum(lengths),
        "tokens_per_s": round(sum(lengths) / seconds, 2),
        "first_token_ms": _percentiles([of[0][0] - started for of in arrivals.values()]),
        "inter_token_ms": _percentiles(gaps),
        "cut_short": len(prompts) - sum(length == params.max_tokens for length in lengths),
        "constraint": None if record is None else record.to_json(),
    }


def _samples_of(result: Any) -> list[Any]:
    """The host's outputs, which are of several types in its own declarations."""
    return list(result.outputs)


def _percentiles(seconds: list[float]) -> dict[str, float] | None:
    ordered = sorted(seconds)
    if not ordered:
        return None
    places = {name: min(len(ordered) - 1, len(ordered) * share // 100) for name, share in (("p50", 50), ("p99", 99))}
    return {name: round(1000 * ordered[place], 3) for name, place in places.items()}


def _options(asked: Run) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if asked.backend == "ninfer":
        options["additional_config"] = {"ninfer": {"grammar_drafts": asked.drafts == "grammar"}}
    else:
        options["structured_outputs_config"] = {"backend": asked.backend}
    if asked.drafts in ("ngram", "grammar"):
        # What is longer than any text never repeats: then there are no drafts but those of the grammar.
        least, most = (1, 3) if asked.drafts == "ngram" else (asked.tokens + PROMPT_TOKENS,) * 2
        options["speculative_config"] = {
            "method": "ngram", "num_speculative_tokens": NUM_DRAFTS,
            "prompt_lookup_min": least, "prompt_lookup_max": most,
        }  # fmt: skip
    elif asked.drafts == "model":
        options["speculative_config"] = {
            "method": "draft_model", "model": asked.draft_model, "num_speculative_tokens": NUM_DRAFTS,
        }  # fmt: skip
    return options


def _params(asked: Run, mode: str) -> SamplingParams:
    constraint: Any = StructuredOutputsParams(json=SCHEMA)
    if mode == "ninfer":
        constraint = OutputConstraint.json_schema(SCHEMA)
    return SamplingParams(
        temperature=asked.temperature,
        seed=1,
        max_tokens=asked.tokens,
        ignore_eos=mode == "unconstrained",
        output_kind=RequestOutputKind.DELTA,
        structured_outputs=None if mode == "unconstrained" else constraint,
    )


if __name__ == "__main__":
    print(json.dumps(run(Run(**json.loads(sys.argv[1])))))  # noqa: T201
