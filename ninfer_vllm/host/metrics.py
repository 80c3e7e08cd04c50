"""Prometheus metrics of constraints on the host's own /metrics (OBS-3).

The engine core is another process, so what it knows of a sample travels with the sample's last output, also where the
client has left, and is counted once in the API process that gets it. The host's registry adds up several API servers.
Every label has a fixed set of values; none is text of a user.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from prometheus_client import Counter, Gauge, Histogram
from vllm.v1.engine import FinishReason

from ninfer_vllm.errors import ConstraintDeadEnd, ConstraintError, NInferError, status_of
from ninfer_vllm.host.metrics_facts import Facts
from ninfer_vllm.record import ConstraintRecord

Outcome = Literal["complete", "truncated", "cancelled", "refused", "failed"]

COMPILE_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Seconds: everyday grammars take milliseconds, and the default time limit is ten seconds."""

BAD_REQUEST = 400


class ConstraintMetrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self.requests = Counter(
            "ninfer_requests",
            "Constrained samples that ended, by what they asked for, what they produced and how they ended.",
            ["kind", "branch", "outcome"],
        )
        self.grammars = Counter(
            "ninfer_grammar_cache_requests",
            "Compiled grammars asked for: hit in the cache, built, or waited for another request's build.",
            ["outcome"],
        )
        self.evictions = Counter("ninfer_grammar_cache_evictions", "Compiled grammars that left the cache for others.")
        # Every process counts the changes it hears of; only their sum is the size.
        self.cache_bytes = Gauge(
            "ninfer_grammar_cache_bytes",
            "Bytes of compiled grammars kept for reuse, of all engine cores together.",
            multiprocess_mode="sum",
        )
        self.compile_seconds = Histogram(
            "ninfer_compile_seconds", "Wall seconds of one cold build of a grammar.", buckets=COMPILE_BUCKETS
        )
        self.mask_seconds = Counter("ninfer_mask_seconds", "CPU seconds spent on masks.")
        self.mask_positions = Counter("ninfer_mask_positions", "Mask rows computed, those of rejected drafts included.")
        self.dead_ends = Counter("ninfer_dead_ends", "Samples that failed because no token was legal.")
        self.refusals = Counter(
            "ninfer_refusals", "Requests refused because of their constraint, by error code.", ["code"]
        )

    def settle(self, record: ConstraintRecord, facts: Facts, reason: FinishReason | None) -> None:
        """Count an ended sample."""
        outcome = outcome_of(record, reason)
        self.requests.labels(record.kind, record.branch, outcome).inc()
        self.mask_positions.inc(record.mask_positions)
        self.mask_seconds.inc(facts.mask_s)
        if outcome == "refused":
            self.refusals.labels(code_of(record)).inc()
        if code_of(record) == ConstraintDeadEnd.code:
            self.dead_ends.inc()
        for name, count in facts.compiler.outcomes.items():
            self.grammars.labels(name).inc(count)
        self.evictions.inc(facts.compiler.evictions)
        self.cache_bytes.inc(facts.compiler.bytes_change)
        for seconds in facts.compiler.build_s:
            self.compile_seconds.observe(seconds)

    def refuse(self, error: NInferError) -> None:
        """Count a request that was refused before it was queued; other errors are none."""
        if isinstance(error, ConstraintError):
            self.refusals.labels(error.code).inc()


@cache
def metrics() -> ConstraintMetrics:
    """This process's metrics; made on first use, when the host has chosen between one and several processes."""
    return ConstraintMetrics()


def outcome_of(record: ConstraintRecord, reason: FinishReason | None) -> Outcome:
    """How a sample ended: an error of its record says most, then the host's finish reason."""
    if record.error is not None:
        return "refused" if status_of(code_of(record)) == BAD_REQUEST else "failed"
    if reason == FinishReason.ABORT:
        return "cancelled"
    if reason == FinishReason.ERROR:
        return "failed"
    return "complete" if record.complete and reason == FinishReason.STOP else "truncated"


def code_of(record: ConstraintRecord) -> str:
    """The error code of a record, empty where it has no error."""
    return "" if record.error is None else str(record.error["code"])
