"""Masks and tokens of the native engine beside xgrammar and llguidance, in one process, on one thread.

Usage: python -m tests.benchmarks.bench_masks [--schemas N] [--engines native,llguidance,xgrammar] [--seed N]
                                              [--instances | --hard]

--hard measures the constraints of `hard_constraints.py` on our engine instead: each in the worst call of a walk.

Texts are random members of our own grammar of each schema, which visit a new place with nearly every token; with
--instances the values that come with the schemas, valid or not, as compact JSON. They are cut to tokens by the Qwen
tokenizer; xgrammar reads our grammar, llguidance the schema itself. A text that an engine does not accept is left
there at that token.

Times are CPU times of the thread, but for xgrammar's first mask, which is wall time: our engine compiles it in another
process. The first mask is timed from the grammar (llguidance: the schema) on; lowering is shown apart. "cold" is the
first visit of each place in one compiled grammar, "warm" the second. What was there before is frozen for Python's
collector, as vLLM freezes what its start has left.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import random
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ninfer_vllm.compiler.warming import warm_up
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.engines.protocol import CompiledGrammar, Matcher
from ninfer_vllm.engines.xgrammar import XgrammarEngine
from ninfer_vllm.errors import NInferError
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.grammar.ir import Grammar, Literal
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.testing.domain import Domain, domain_of
from tests.benchmarks.hard_constraints import hard_constraints

SCHEMAS = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "real-schemas.jsonl.gz"
TEXTS = 2
TEXT_BYTES = 300
WARM_UP = Grammar({"root": Literal(b"a")}, "root")


@dataclass
class Case:
    """A schema, its grammar and token texts of its language."""

    schema: Any
    grammar: Grammar
    lowering_ns: int
    texts: list[list[int]]


@dataclass
class Figures:
    """Times of one schema in nanoseconds."""

    first_mask: list[int] = field(default_factory=list)
    cold_mask: list[int] = field(default_factory=list)
    warm_mask: list[int] = field(default_factory=list)
    cold_accept: list[int] = field(default_factory=list)
    warm_accept: list[int] = field(default_factory=list)
    cut_short: int = 0


class Llguidance:
    """llguidance behind the names this script uses."""

    def __init__(self, domain: Domain) -> None:
        import llguidance
        import llguidance.hf

        self._matcher = llguidance.LLMatcher
        self._tokenizer = llguidance.hf.from_tokenizer(domain.tokenizer, n_vocab=len(domain.vocabulary))

    def open(self, case: Case) -> Any:
        """A matcher at the start."""
        grammar = self._matcher.grammar_from_json_schema(case.schema, defaults={"whitespace_flexible": False})
        matcher = self._matcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return LlguidanceMatcher(matcher)


class LlguidanceMatcher:
    """A matcher with the two methods that are measured."""

    def __init__(self, core: Any) -> None:
        self._core = core

    def fill(self, row: np.ndarray) -> None:
        """Write the mask."""
        self._core.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)

    def accept(self, token: int) -> bool:
        """Take a token."""
        return bool(self._core.consume_token(token))

    def again(self) -> LlguidanceMatcher:
        """The same grammar from the start."""
        copy = self._core.deep_copy()
        copy.reset()
        return LlguidanceMatcher(copy)


def main() -> None:
    """Print one block an engine, then all engines over the schemas that every one takes."""
    args = arguments()
    domain = domain_of("embedded-qwen")
    if args.hard:
        report_hard(domain)
        return
    cases = list(cases_of(args.schemas, args.seed, domain, instances=args.instances))
    lowering = sorted(case.lowering_ns for case in cases)
    tokens = sum(len(text) for case in cases for text in case.texts)
    print(f"{len(cases)} schemas, {tokens} tokens; lowering p50 {lowering[len(lowering) // 2] / 1e6:.2f} ms")
    found: dict[str, dict[int, Figures]] = {}
    for name in args.engines.split(","):
        before = resident()
        clock = time.perf_counter_ns if name == "xgrammar" else time.thread_time_ns
        open_case = opener(name, domain)
        gc.collect()
        gc.freeze()
        found[name] = measured(open_case, cases, np.zeros(domain.vocabulary.words, np.int32), clock)
        report(name, found[name], len(cases), resident() - before)
    if len(found) > 1:
        report_common(found)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Masks of three engines.")
    parser.add_argument("--schemas", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--instances", action="store_true")
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--engines", default="native,llguidance,xgrammar")
    return parser.parse_args()


def cases_of(count: int, seed: int, domain: Domain, *, instances: bool = False) -> Iterator[Case]:
    """The first schemas of a shuffled list that our lowering takes."""
    with gzip.open(SCHEMAS, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    random.Random(seed).shuffle(rows)
    for row in rows:
        started = time.thread_time_ns()
        try:
            grammar = prune(lower(OutputConstraint.json_schema(row["schema"])))
        except NInferError:
            continue
        spent = time.thread_time_ns() - started
        if instances:
            texts = [json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False) for test in row["tests"]]
        else:
            texts = [sample(grammar, random.Random(seed + at), TEXT_BYTES).decode() for at in range(TEXTS)]
        yield Case(row["schema"], grammar, spent, [domain.tokenizer.encode(text) for text in texts])
        count -= 1
        if not count:
            return


def opener(name: str, domain: Domain) -> Callable[[Case], Any]:
    """A function that compiles a case's grammar and gives a function that opens matchers; the engine is warm."""
    if name == "llguidance":
        peer = Llguidance(domain)
        return peer.open
    engine = NativeEngine(domain.vocabulary) if name == "native" else XgrammarEngine(domain.vocabulary, timeout_s=60)
    engine.compile(WARM_UP).matcher().fill(np.zeros(domain.vocabulary.words, np.int32))
    if name == "native":
        # As the engine core does before its first request.
        warm_up(engine, len(domain.vocabulary))
    return lambda case: Opened(engine.compile(case.grammar))


class Opened:
    """A compiled grammar as the first matcher of it."""

    def __init__(self, compiled: CompiledGrammar) -> None:
        self._compiled = compiled
        self._matcher: Matcher = compiled.matcher()
        self.fill = self._matcher.fill
        self.accept = self._matcher.accept

    def again(self) -> Opened:
        """A new matcher."""
        return Opened(self._compiled)


def measured(
    open_case: Callable[[Case], Any], cases: list[Case], row: np.ndarray, clock: Callable[[], int]
) -> dict[int, Figures]:
    """Walk all texts twice; the figures of each case that is taken, by its place in the list."""
    found: dict[int, Figures] = {}
    kept = []
    for place, case in enumerate(cases):
        started = clock()
        try:
            first = open_case(case)
        except (NInferError, ValueError):
            continue
        first.fill(row)
        figures = found[place] = Figures()
        figures.first_mask.append(clock() - started)
        kept.append(first)
        for masks, accepts in (
            (figures.cold_mask, figures.cold_accept),
            (figures.warm_mask, figures.warm_accept),
        ):
            for text in case.texts:
                figures.cut_short += not walked(first.again(), text, row, masks, accepts)
    return found


def walked(matcher: Any, text: list[int], row: np.ndarray, masks: list[int], accepts: list[int]) -> bool:
    """Take the tokens; whether all were legal."""
    clock = time.thread_time_ns
    for token in text:
        started = clock()
        accepted = matcher.accept(token)
        between = clock()
        if not accepted:
            return False
        matcher.fill(row)
        accepts.append(between - started)
        masks.append(clock() - between)
    return True


def report(name: str, figures: dict[int, Figures], num_cases: int, grown: int) -> None:
    """One block."""
    refused, cut_short = num_cases - len(figures), sum(each.cut_short for each in figures.values())
    print(f"\n{name}: refused {refused}, texts cut short {cut_short}, memory {grown / 1024:+.0f} MiB")
    report_times(figures.values(), ("first_mask", "cold_mask", "warm_mask", "cold_accept", "warm_accept"))


def report_common(found: dict[str, dict[int, Figures]]) -> None:
    """What is compared: the cold figures of all engines over the schemas that every one of them takes."""
    common = set.intersection(*(set(figures) for figures in found.values()))
    for name, figures in found.items():
        print(f"\n{name}, the {len(common)} schemas that all take")
        report_times([figures[place] for place in sorted(common)], ("first_mask", "cold_mask"))


def report_times(figures: Iterable[Figures], labels: Iterable[str]) -> None:
    """One line a label."""
    each = list(figures)
    for label in labels:
        times = sorted(time for one in each for time in getattr(one, label))
        if times:
            p50, p90, p99 = (times[min(len(times) - 1, len(times) * share // 100)] / 1e3 for share in (50, 90, 99))
            mean = sum(times) / len(times) / 1e3
            worst = times[-1] / 1e3
            print(f"  {label:<12} p50 {p50:9.1f} p90 {p90:9.1f} p99 {p99:9.1f} mean {mean:9.1f} worst {worst:9.1f} us")


def report_hard(domain: Domain) -> None:
    """One line a constraint: what preparing takes, and the worst calls of a walk; or the limit that refuses it."""
    engine = NativeEngine(domain.vocabulary)
    row = np.zeros(domain.vocabulary.words, np.int32)
    engine.compile(WARM_UP).matcher().fill(row)
    for hard in hard_constraints():
        gc.collect()
        gc.freeze()
        started = time.thread_time()
        figures = Figures()
        try:
            grammar = lower(hard.constraint())
            between = time.thread_time()
            matcher = engine.compile(grammar).matcher()
            lowering, compiling = between - started, time.thread_time() - between
            started = time.thread_time()
            matcher.fill(row)
            figures.cold_mask.append(round((time.thread_time() - started) * 1e9))
            tokens = domain.tokenizer.encode(hard.text, add_special_tokens=False)
            walked(matcher, tokens, row, figures.cold_mask, figures.cold_accept)
        except NInferError as error:
            done = len(figures.cold_accept)
            print(f"{hard.name:<44} refused, {done} tokens: {str(error)[:90]}", flush=True)
            continue
        mask, accept = max(figures.cold_mask) / 1e6, max(figures.cold_accept, default=0) / 1e6
        prepared = f"lowering {lowering * 1e3:8.1f} compile {compiling * 1e3:7.1f}"
        print(f"{hard.name:<44} {prepared} worst mask {mask:8.2f} worst accept {accept:7.2f} ms", flush=True)


def resident() -> int:
    """Peak resident memory in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
