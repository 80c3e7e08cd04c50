"""Ended samples leave the engine core: each record and its facts on the sample's last output (OBS-1, OBS-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason

from ninfer_vllm.compiler.observed import Observed
from ninfer_vllm.host.host_version import drop_host_error
from ninfer_vllm.host.metrics_facts import Facts
from ninfer_vllm.host.requests import PAYLOAD_KEY
from ninfer_vllm.session.session import OutputSession

Ended = Mapping[str, tuple[OutputSession, int]]
"""Ended sessions by request, each with the API server it belongs to."""


def publish_ended(ended: Ended, observe: Callable[[], Observed], outputs: dict[int, EngineCoreOutputs]) -> None:
    """Put records on last outputs; a sample whose client left gets an output that carries nothing else.

    `observe` says what the compiler did since it was last asked.
    """
    items = (item for batch in outputs.values() for item in batch.outputs)
    last = {item.request_id: item for item in items if item.finish_reason is not None}
    for request_id, (session, client_index) in ended.items():
        item = last.get(request_id)
        if item is None:
            item = EngineCoreOutput(request_id, [], finish_reason=FinishReason.ABORT)
            outputs.setdefault(client_index, EngineCoreOutputs(outputs=[])).outputs.append(item)
        _publish(item, session, Facts(session.seconds.get("mask_s", 0.0), observe()))


def _publish(item: Any, session: OutputSession, facts: Facts) -> None:
    record = session.record
    carried = {
        "record": record.to_json(),
        "error": None if session.error is None else session.error.to_wire(),
        "facts": facts.to_wire(),
    }
    item.kv_transfer_params = {**(item.kv_transfer_params or {}), PAYLOAD_KEY: carried}
    if record.error is not None:
        item.stop_reason = record.error["code"]
        drop_host_error(item)
