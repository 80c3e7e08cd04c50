"""The built-in workloads of `ninfer bench masks`, walked by our engine and by others in one process (PRF-1)."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ninfer_vllm.compiler.warming import warm_up
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.peers import Llguidance, Peer, PeerGrammar, PeerMatcher, StockXgrammar
from ninfer_vllm.engines.selection import engine_for
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import MaskRow, empty_row
from ninfer_vllm.testing.domain import Domain, domain_of
from ninfer_vllm.vocabulary import TokenClass

TEXTS, TEXT_BYTES = 4, 200
OURS, XGRAMMAR, LLGUIDANCE = "ninfer", "xgrammar", "llguidance"

PERSON = {"name": {"type": "string"}, "age": {"type": "integer"}, "email": {"type": "string"}}
NODE = {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


WORKLOADS: dict[str, Any] = {
    "record": _closed(PERSON),
    "classes": _closed({"label": {"enum": [f"class-{number}" for number in range(50)]}, "sure": {"type": "boolean"}}),
    "table": _closed({"rows": {"type": "array", "items": _closed(PERSON), "minItems": 1}}),
    "tree": {"$defs": {"node": _closed(NODE)}, "$ref": "#/$defs/node"},
}


@dataclass(slots=True)
class Times:
    """Wall nanoseconds of one engine over all workloads."""

    first_mask: list[int] = field(default_factory=list)
    """From the schema, with nothing cached, to the first mask."""
    warm_first_mask: list[int] = field(default_factory=list)
    """From a schema that is compiled already to the first mask of one more output."""
    cold_mask: list[int] = field(default_factory=list)
    """Where nobody has been in this compiled schema before."""
    cold_accept: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """Where an output has been before."""
    accept: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    cut_short: int = 0

    def to_json(self) -> dict[str, Any]:
        """Microseconds at the middle and at the slow end, and how many of each there were."""
        names = ("first_mask", "warm_first_mask", "cold_mask", "cold_accept", "mask", "accept")
        facts: dict[str, Any] = {
            name: {"p50_us": _at(times, 50), "p99_us": _at(times, 99), "count": len(times)}
            for name, times in ((name, getattr(self, name)) for name in names)
        }
        return {**facts, "refused": self.refused, "cut_short": self.cut_short}


def measure(tokenizer: str, peers: tuple[str, ...], progress: Callable[[str], None]) -> dict[str, Any]:
    """Times of every engine, and the MiB by which it made the process grow: a JSON object by engine name.

    Errors: UnsupportedTokenizer.
    """
    domain = domain_of(tokenizer)
    found: dict[str, Any] = {}
    before = _resident_mib()
    for name, engine in _engines(domain, peers):
        progress(name)
        if engine is None:
            found[name] = {"missing": "not installed"}
            continue
        engine.compile({"const": "warm-up"}).matcher().fill(empty_row(len(domain.vocabulary)))
        times = Times()
        for workload, schema in WORKLOADS.items():
            _walk_all(engine, workload, schema, domain, times)
        after = _resident_mib()
        found[name] = {**times.to_json(), "memory_mib": round(after - before, 1)}
        before = after
    return found


class Ours:
    """This product's native engine behind the names of a peer; lowering is part of what is timed."""

    def __init__(self, domain: Domain) -> None:
        self._engine = engine_for("native", domain.vocabulary)
        warm_up(self._engine, len(domain.vocabulary))

    def compile(self, schema: Any) -> PeerGrammar:
        """Lower and compile a schema."""
        return self._engine.compile(prune(lower(OutputConstraint.json_schema(schema))))


def _engines(domain: Domain, peers: tuple[str, ...]) -> Iterator[tuple[str, Peer | None]]:
    yield OURS, Ours(domain)
    if XGRAMMAR in peers:
        ends = list(domain.vocabulary.ids(TokenClass.EOS))
        yield XGRAMMAR, StockXgrammar(domain.tokenizer, len(domain.vocabulary), ends)
    if LLGUIDANCE in peers:
        try:
            yield LLGUIDANCE, Llguidance(domain.tokenizer, len(domain.vocabulary))
        except ModuleNotFoundError:
            yield LLGUIDANCE, None


def _walk_all(engine: Peer, workload: str, schema: Any, domain: Domain, times: Times) -> None:
    row = empty_row(len(domain.vocabulary))
    grammar = prune(lower(OutputConstraint.json_schema(schema)))
    texts = [sample(grammar, random.Random(seed), TEXT_BYTES).decode() for seed in range(TEXTS)]
    for text in texts:
        started = time.perf_counter_ns()
        try:
            compiled = engine.compile(schema)
        except ValueError:
            times.refused.append(workload)
            return
        first = compiled.matcher()
        first.fill(row)
        times.first_mask.append(time.perf_counter_ns() - started)
        started = time.perf_counter_ns()
        second = compiled.matcher()
        second.fill(row)
        times.warm_first_mask.append(time.perf_counter_ns() - started)
        tokens = domain.tokenizer.encode(text, add_special_tokens=False)
        times.cut_short += not _walked(first, tokens, row, times.cold_mask, times.cold_accept)
        _walked(second, tokens, row, times.mask, times.accept)


def _walked(matcher: PeerMatcher, tokens: list[int], row: MaskRow, masks: list[int], accepts: list[int]) -> bool:
    for token in tokens:
        started = time.perf_counter_ns()
        legal = matcher.accept(token)
        between = time.perf_counter_ns()
        if not legal:
            return False
        matcher.fill(row)
        accepts.append(between - started)
        masks.append(time.perf_counter_ns() - between)
    return True


def _resident_mib() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _at(times: list[int], share: int) -> float | None:
    """The value at a share of a hundred, in microseconds."""
    ordered = sorted(times)
    return round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)] / 1000, 1) if ordered else None
