"""Metrics: how a sample ended, what crosses the process boundary, and labels that no user can choose."""

from __future__ import annotations

from typing import get_args

import pytest
from vllm.v1.engine import FinishReason

from ninfer_vllm.compiler.observed import Observed
from ninfer_vllm.errors import CompileFailed, ConflictingConstraint, ConstraintDeadEnd, LimitExceeded, NInferError
from ninfer_vllm.host.metrics import Outcome, metrics, outcome_of
from ninfer_vllm.host.metrics_facts import Facts
from ninfer_vllm.record import ConstraintRecord

pytestmark = pytest.mark.contract("OBS-3")


def record(error: NInferError | None = None, *, complete: bool = False) -> ConstraintRecord:
    told = None if error is None else error.to_json()
    return ConstraintRecord("regex", "native", "content", complete, error=told, mask_positions=3)


@pytest.mark.parametrize(
    ("ended", "reason", "outcome"),
    [
        (record(complete=True), FinishReason.STOP, "complete"),
        (record(complete=True), FinishReason.LENGTH, "truncated"),
        (record(), FinishReason.LENGTH, "truncated"),
        (record(), FinishReason.REPETITION, "truncated"),
        (record(), FinishReason.ABORT, "cancelled"),
        (record(complete=True), FinishReason.ABORT, "cancelled"),
        (record(), FinishReason.ERROR, "failed"),
        (record(ConstraintDeadEnd(1)), FinishReason.ERROR, "failed"),
        (record(CompileFailed("x")), FinishReason.ERROR, "failed"),
        (record(LimitExceeded("compile_timeout", 1)), FinishReason.ERROR, "refused"),
    ],
)
def test_outcome_of_every_end(ended: ConstraintRecord, reason: FinishReason, outcome: Outcome) -> None:
    assert outcome in get_args(Outcome)
    assert outcome_of(ended, reason) == outcome


def test_facts_cross_the_process_boundary_unchanged() -> None:
    facts = Facts(0.5, Observed({"hit": 2}, 1, -7, [0.25]))
    assert Facts.from_wire(facts.to_wire()) == facts
    assert Facts().to_wire() == {"mask_s": 0.0}
    assert Facts.from_wire({"mask_s": 0.0}) == Facts()


def test_a_sample_is_settled_into_every_metric() -> None:
    ours = metrics()
    assert metrics() is ours
    before = ours.cache_bytes._value.get()
    dead = ours.dead_ends._value.get()
    ours.settle(record(ConstraintDeadEnd(1)), Facts(0.5, Observed({"built": 1}, 2, 10, [0.02])), FinishReason.ERROR)
    assert ours.requests.labels("regex", "content", "failed")._value.get() == 1
    assert ours.cache_bytes._value.get() - before == 10
    assert ours.dead_ends._value.get() - dead == 1
    assert ours.grammars.labels("built")._value.get() >= 1


def test_only_refusals_are_counted_as_refusals_and_by_code_alone() -> None:
    counted = metrics().refusals.labels("conflicting_constraint")._value
    before = counted.get()
    metrics().refuse(ConflictingConstraint("user text", "more of it"))
    metrics().refuse(ConstraintDeadEnd(1))
    assert counted.get() - before == 1
    codes = {sample.labels.get("code") for family in metrics().refusals.collect() for sample in family.samples}
    assert "user text" not in str(codes)
