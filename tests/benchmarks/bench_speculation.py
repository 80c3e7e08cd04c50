"""Speculative decoding of JSON extraction on the embedded English model: accepted length, validity, speed as a ratio.

Usage: python -m tests.benchmarks.bench_speculation [--requests N] [--tokens N] [--proposers ...] [--modes ...]

Proposers: none; n-gram; the model itself, probabilistic; a noisy copy of it, probabilistic. Modes: free (no
constraint), stock (the host's own constraint, without the plugin), ours. Temperatures 0 and 0.8. An engine is started
for each proposer with and without the plugin. Speed is told as a ratio to the same mode and temperature without drafts,
so that the machine does not matter; accepted length counts the correction or bonus token too. On a CPU the host as it
is samples drafts at temperatures above 0 with memory that nobody wrote (docs/speculative.md): its figures show that.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import IN_PROCESS, SELECTED, Ask, Engine, generate
from tests.support.kinds import Person, admits

DRAFTS = 3
NOISE = 0.2
"""Of a weight matrix's own standard deviation."""
TEMPERATURES = (0.0, 0.8)
MODES = ("free", "stock", "ours")
PROPOSERS = ("none", "ngram", "itself", "noisy")
PEOPLE = (("Ann", 7), ("Bob", 41), ("Carol", 33), ("Dan", 68), ("Eve", 25), ("Frank", 52), ("Grace", 19), ("Henry", 80))
SHOWN = 'Ivy is 30: {"name":"Ivy","age":30,"email":null}\n'


@dataclass(frozen=True, slots=True)
class Measurement:
    """One batch of requests."""

    mode: str
    proposer: str
    temperature: float
    num_tokens: int
    seconds: float
    num_valid: int
    num_requests: int
    num_steps: int
    """Verified steps; 0 where nothing was drafted."""
    num_accepted: int
    """Accepted drafts."""

    @property
    def tokens_per_s(self) -> float:
        """Speed of the whole batch."""
        return self.num_tokens / self.seconds

    @property
    def accepted_length(self) -> float:
        """Tokens of a verified step, the last one included."""
        return 1 + self.num_accepted / self.num_steps if self.num_steps else 1.0


def main() -> None:
    """Print a table."""
    given = arguments()
    print(as_table(list(measure(given.requests, given.tokens, given.proposers.split(","), given.modes.split(",")))))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Speculative decoding under a JSON Schema.")
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--proposers", default=",".join(PROPOSERS))
    parser.add_argument("--modes", default=",".join(MODES))
    return parser.parse_args()


def measure(
    num_requests: int, num_tokens: int, proposers: Sequence[str], modes: Sequence[str]
) -> Iterator[Measurement]:
    """Every combination, engine by engine."""
    from ninfer_vllm.embedded import build

    model = build("smollm2")
    with tempfile.TemporaryDirectory() as folder:
        noisy = noisy_copy(model, Path(folder) / "noisy") if "noisy" in proposers else model
        for proposer in proposers:
            draft = noisy if proposer == "noisy" else model
            for is_ours in (False, True):
                own = [mode for mode in modes if (mode == "ours") == is_ours]
                if own:
                    yield from measure_engine(model, draft, proposer, own, num_requests, num_tokens)


def measure_engine(
    model: Path, draft: Path, proposer: str, modes: Sequence[str], num_requests: int, num_tokens: int
) -> Iterator[Measurement]:
    """The modes of one engine, which is warmed up first."""
    is_ours = "ours" in modes
    environment = IN_PROCESS if is_ours else {**IN_PROCESS, "VLLM_PLUGINS": "none"}
    options: dict[str, Any] = {"max_model_len": 512, "disable_log_stats": False, **(SELECTED if is_ours else {})}
    speculation = speculation_of(proposer, draft)
    if speculation is not None:
        options["speculative_config"] = speculation
    with Engine(model, environment, **options) as running:
        for mode in modes:
            for temperature in TEMPERATURES:
                asks = asks_of(mode, temperature, num_requests, num_tokens)
                running.call(timed, asks[:1])
                texts, count, seconds, steps, accepted = running.call(timed, asks)
                valid = sum(map(is_person, texts))
                yield Measurement(mode, proposer, temperature, count, seconds, valid, len(asks), steps, accepted)


def is_person(text: str) -> bool:
    """Whether a text is JSON for the schema; free text often is no JSON at all."""
    try:
        return admits(Person, text)
    except ValueError:
        return False


def speculation_of(proposer: str, draft: Path) -> dict[str, Any] | None:
    """The host's option for a proposer."""
    if proposer == "none":
        return None
    if proposer == "ngram":
        return {"method": "ngram", "num_speculative_tokens": DRAFTS, "prompt_lookup_min": 1, "prompt_lookup_max": 3}
    return {
        "method": "draft_model", "model": str(draft), "num_speculative_tokens": DRAFTS,
        "draft_sample_method": "probabilistic",
    }  # fmt: skip


def asks_of(mode: str, temperature: float, num_requests: int, num_tokens: int) -> list[Ask]:
    """Extraction of a person from a sentence, with an example shown."""
    constraint: Any = None
    if mode == "ours":
        constraint = OutputConstraint.json_schema(Person)
    elif mode == "stock":
        constraint = StockSchema()
    people = [PEOPLE[at % len(PEOPLE)] for at in range(num_requests)]
    sampling = {"temperature": temperature, "max_tokens": num_tokens, "seed": 1}
    return [Ask(f"{SHOWN}{name} is {age}:", constraint, sampling) for name, age in people]


@dataclass(frozen=True, slots=True)
class StockSchema:
    """Stands for the host's own parameters, which this process does not import."""


def timed(llm: Any, asks: Sequence[Ask]) -> tuple[list[str], int, float, int, int]:
    """Runs beside the engine: texts, tokens, seconds, verified steps, accepted drafts."""
    from vllm.sampling_params import StructuredOutputsParams

    given = [
        Ask(ask.prompt, StructuredOutputsParams(json=Person.model_json_schema()), ask.sampling)  # type: ignore[arg-type]
        if isinstance(ask.constraint, StockSchema)
        else ask
        for ask in asks
    ]
    before = drafted(llm)
    started = time.perf_counter()
    answers = generate(llm, given)
    seconds = time.perf_counter() - started
    steps, accepted = (after - earlier for after, earlier in zip(drafted(llm), before, strict=True))
    samples = [answer.only for answer in answers]
    return [one.text for one in samples], sum(len(one.token_ids) for one in samples), seconds, steps, accepted


def drafted(llm: Any) -> tuple[int, int]:
    """Verified steps and accepted drafts so far."""
    values = {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}
    steps = values.get("vllm:spec_decode_num_drafts", 0)
    return int(steps), int(values.get("vllm:spec_decode_num_accepted_tokens", 0))


def noisy_copy(model: Path, target: Path) -> Path:
    """The model with Gaussian noise on its matrices."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, target)
    generator = torch.Generator().manual_seed(1)
    for file in target.glob("*.safetensors"):
        weights = load_file(file)
        for name, weight in weights.items():
            if weight.dim() == 2:
                noise = torch.randn(weight.shape, generator=generator) * weight.float().std() * NOISE
                weights[name] = (weight.float() + noise).to(weight.dtype)
        save_file(weights, file, metadata={"format": "pt"})
    return target


def as_table(measurements: Sequence[Measurement]) -> str:
    """One line a measurement; speed against the same mode and temperature without drafts, where that was measured."""
    plain = {(one.mode, one.temperature): one.tokens_per_s for one in measurements if one.proposer == "none"}
    lines = ["| mode | proposer | temperature | accepted length | valid | speed |", "|---|---|---|---|---|---|"]
    for one in measurements:
        base = plain.get((one.mode, one.temperature))
        speed = "-" if base is None else f"{one.tokens_per_s / base:.2f}"
        length = f"{one.accepted_length:.2f}"
        valid = f"{one.num_valid}/{one.num_requests}"
        lines.append(f"| {one.mode} | {one.proposer} | {one.temperature} | {length} | {valid} | {speed} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
