"""Every ended sample is told once, over the host's own encoding, and counted where its client was."""

from __future__ import annotations

from typing import Any

import pytest
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from ninfer_vllm.compiler.observed import Observed
from ninfer_vllm.errors import ConstraintDeadEnd
from ninfer_vllm.host.metrics import metrics
from ninfer_vllm.host.metrics_settlement import publish_ended
from ninfer_vllm.host.results import take_records
from ninfer_vllm.session.session import OutputSession

pytestmark = pytest.mark.contract("OBS-3", "OBS-1")


def crossed(outputs: dict[int, EngineCoreOutputs]) -> dict[int, EngineCoreOutputs]:
    """The outputs as the API processes get them."""
    decoder = MsgpackDecoder(EngineCoreOutputs)
    return {client: decoder.decode(MsgpackEncoder().encode(batch)) for client, batch in outputs.items()}


def ended(kind: str, error: ConstraintDeadEnd | None = None) -> OutputSession:
    session = OutputSession(kind, "native", "content")
    if error is None:
        session.finish()
    else:
        session.fail(error)
    return session


def counted(*labels: str) -> float:
    value: Any = metrics().requests.labels(*labels)._value
    return float(value.get())


def test_finished_failed_and_abandoned_samples_are_counted_once_each() -> None:
    stopped = EngineCoreOutput("a", [1], finish_reason=FinishReason.LENGTH)
    failed = EngineCoreOutput("b", [], finish_reason=FinishReason.ERROR)
    running = EngineCoreOutput("d", [2])
    outputs = {0: EngineCoreOutputs(outputs=[stopped, failed, running])}
    sessions = {
        "a": (ended("choice"), 0), "b": (ended("grammar", ConstraintDeadEnd(0)), 0), "c": (ended("json_object"), 1),
    }  # fmt: skip
    told = iter([Observed({"built": 2}, 0, 5, [0.1])])
    publish_ended(sessions, lambda: next(told, Observed()), outputs)
    assert [item.request_id for item in outputs[1].outputs] == ["c"]

    labels = (
        ("choice", "undecided", "truncated"),
        ("grammar", "undecided", "failed"),
        ("json_object", "undecided", "cancelled"),
    )
    before = [counted(*of) for of in labels]
    built = metrics().grammars.labels("built")._value.get()
    for batch in crossed(outputs).values():
        processor = OutputProcessor(None, log_stats=False)
        take_records(processor, batch.outputs)
        assert all(not item.kv_transfer_params for item in batch.outputs)
        assert processor.process_outputs(batch.outputs).request_outputs == [], "nobody waits for them"
    assert [counted(*of) - was for of, was in zip(labels, before, strict=True)] == [1, 1, 1]
    assert metrics().grammars.labels("built")._value.get() - built == 2


def test_what_the_host_carries_beside_the_record_stays() -> None:
    item = EngineCoreOutput("a", [], finish_reason=FinishReason.STOP, kv_transfer_params={"other": 1})
    outputs = {0: EngineCoreOutputs(outputs=[item])}
    publish_ended({"a": (ended("regex"), 0)}, Observed, outputs)
    (arrived,) = crossed(outputs)[0].outputs
    take_records(OutputProcessor(None, log_stats=False), [arrived])
    assert arrived.kv_transfer_params == {"other": 1}
