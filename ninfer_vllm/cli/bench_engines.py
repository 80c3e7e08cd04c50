"""The engines of `ninfer bench engine`: one after another, and what their figures are to each other (PRF-2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

UNCONSTRAINED, OURS = "unconstrained", "ninfer"
BACKENDS = ("xgrammar", "guidance", OURS)
"""The host's own two and ours; the first one's engine also runs the unconstrained mode."""
DRAFTS = ("none", "ngram", "model", "grammar")
PLAIN, GRAMMAR = DRAFTS[0], DRAFTS[-1]
MODES = (UNCONSTRAINED, *BACKENDS)
ERROR_WORDS = 40
"""Words of a failed engine's error that are shown: its end."""

Figures = dict[str, dict[str, Any]]
"""By drafts, by mode, by batch size; a mode that was not measured has `failed` and why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    model: str
    draft_model: str
    drafts: Sequence[str]
    backends: Sequence[str]
    batches: Sequence[int]
    tokens: int
    temperature: float

    def runs(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Proposer, back end, and the argument of every engine's process, in order."""
        shared = {
            "model": self.model, "draft_model": self.draft_model, "tokens": self.tokens, "batches": list(self.batches),
            "temperature": self.temperature,
        }  # fmt: skip
        for drafts in self.drafts:
            # Nobody else has drafts of a grammar.
            for backend in (OURS,) if drafts == GRAMMAR else self.backends:
                yield drafts, backend, {"backend": backend, "drafts": drafts, **shared}


def measure(plan: Plan, environment: dict[str, str], progress: Callable[[str], None]) -> Figures:
    """Run every engine of the plan; the figures with their ratios."""
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_LOGGING_STREAM": "ext://sys.stderr"}
    figures: Figures = {drafts: {} for drafts in plan.drafts}
    for drafts, backend, argument in plan.runs():
        progress(f"{backend}, drafts: {drafts}")
        words = [sys.executable, "-m", "ninfer_vllm.host.measured_run", json.dumps(argument)]
        done = subprocess.run(
            words, capture_output=True, text=True, env={**os.environ, **environment, **quiet}, check=False
        )
        if done.returncode:
            figures[drafts][backend] = {"failed": " ".join(done.stderr.split()[-ERROR_WORDS:])}
        else:
            figures[drafts].update(json.loads(done.stdout.splitlines()[-1]))
    add_ratios(figures)
    return figures


def add_ratios(figures: Figures) -> None:
    """Give every measurement its speed relative to each other mode, and to the same mode without drafts."""
    for modes in figures.values():
        for mode, sizes in _measured(modes).items():
            for size, row in sizes.items():
                others = {other: of[size]["tokens_per_s"] for other, of in _measured(modes).items() if other != mode}
                row["ratios"] = {other: round(row["tokens_per_s"] / rate, 3) for other, rate in others.items()}
                plain = figures.get(PLAIN, {}).get(mode, {}).get(size)
                row["of_plain"] = None if plain is None else round(row["tokens_per_s"] / plain["tokens_per_s"], 3)


def is_complete(figures: Figures) -> bool:
    """Whether every engine was measured."""
    return not any("failed" in of for modes in figures.values() for of in modes.values())


def plot(figures: Figures, heading: Callable[[str], None], bar: Callable[[str, float, str], None]) -> None:
    """Draw every batch size of every proposer: a bar a mode, as long as its speed, with its times and ratios."""
    for drafts, modes in figures.items():
        measured = _measured(modes)
        for size in next(iter(measured.values()), {}):
            heading(f"tokens a second, drafts: {drafts}, batch {size}")
            longest = max(of[size]["tokens_per_s"] for of in measured.values())
            for mode, of in measured.items():
                bar(mode, of[size]["tokens_per_s"] / longest, _facts(mode, of[size]))
        for mode in modes.keys() - measured.keys():
            heading(f"{mode}, drafts: {drafts}: {modes[mode]['failed']}")


def _facts(mode: str, row: dict[str, Any]) -> str:
    gaps = row["inter_token_ms"]
    times = "one output" if gaps is None else f"{gaps['p50']} ms between tokens (p99 {gaps['p99']})"
    shown = row["ratios"] if mode == OURS else {name: of for name, of in row["ratios"].items() if name == UNCONSTRAINED}
    facts = [str(row["tokens_per_s"]), times, *(f"{ratio:.2f} × {name}" for name, ratio in shown.items())]
    if row["of_plain"] not in (None, 1.0):
        facts.append(f"{row['of_plain']:.2f} × without drafts")
    if row["cut_short"]:
        facts.append(f"{row['cut_short']} ended early")
    return ", ".join(facts)


def _measured(modes: dict[str, Any]) -> dict[str, Any]:
    return {mode: modes[mode] for mode in MODES if mode in modes and "failed" not in modes[mode]}
