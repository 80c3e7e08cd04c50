"""Constraints of HTTP requests: where they are lowered, how streams begin, what records look like."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest

from ninfer_vllm.compiler.lowering import Lowered
from ninfer_vllm.constraint import Constraint
from ninfer_vllm.errors import ConstraintDeadEnd, InvalidRegex
from ninfer_vllm.host.http import before_first_event, prepare
from ninfer_vllm.host.http_errors import LocatedRefusal, RefusedStream, stream_event
from ninfer_vllm.host.http_records import add_to_event
from ninfer_vllm.host.options import PluginOptions
from ninfer_vllm.host.prepare import Preparer
from ninfer_vllm.host.requested import origin_of
from ninfer_vllm.record import ConstraintRecord

MESSAGES = [{"role": "user", "content": "hi"}]


class WatchedPreparer(Preparer):
    """A real preparer that notes the thread in which it lowers."""

    def __init__(self) -> None:
        super().__init__(None, None, PluginOptions())  # type: ignore[arg-type]
        self.threads: list[int] = []

    def lower(self, constraint: Constraint) -> Lowered | None:
        self.threads.append(threading.get_ident())
        return super().lower(constraint)


def chat(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest(model="m", messages=MESSAGES, **fields)


@pytest.mark.contract("CMP-7")
def test_lowering_never_runs_on_the_event_loop() -> None:
    preparer = WatchedPreparer()

    async def run() -> None:
        assert (await prepare(chat(structured_outputs={"regex": "a+"}), preparer)).enforced
        assert not (await prepare(chat(), preparer)).enforced

    asyncio.run(run())
    assert len(preparer.threads) == 1
    assert preparer.threads[0] != threading.get_ident()


@pytest.mark.contract("ERR-2", "JSD-8")
@pytest.mark.parametrize(
    ("request_", "origin"),
    [
        (chat(structured_outputs={"regex": "("}), "structured_outputs/regex"),
        (CompletionRequest(model="m", prompt="x", structured_outputs={"choice": []}), "structured_outputs/choice"),
        (
            chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nope"}}}),
            "response_format/json_schema/schema",
        ),
    ],
)
def test_refusals_know_the_field_they_lie_in(request_: Any, origin: str) -> None:
    assert origin_of(request_) == origin
    with pytest.raises(LocatedRefusal) as refusal:
        asyncio.run(prepare(request_, WatchedPreparer()))
    assert str(refusal.value.param).startswith(origin)


@pytest.mark.contract("REQ-5", "REQ-7")
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto"}, "tools"),
        ({"echo": True}, "echo"),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"skip_special_tokens": False}, "skip_special_tokens"),
    ],
)
def test_what_contradicts_a_body_constraint_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(LocatedRefusal) as refusal:
        asyncio.run(prepare(chat(structured_outputs={"regex": "a"}, **fields), WatchedPreparer()))
    assert refusal.value.error.place == {"field": field}


async def stream(*events: str) -> AsyncIterator[str]:
    for event in events:
        yield event


@pytest.mark.contract("ERR-2", "ERR-5")
@pytest.mark.parametrize(
    ("event", "status"),
    [
        (f"data: {stream_event(InvalidRegex('bad', 3))}\n\n", 400),
        (f"data: {stream_event(ConstraintDeadEnd(0))}\n\n", 422),
        ('data: {"error": {"message": "theirs", "code": 503}}\n\n', 503),
    ],
)
def test_streams_that_begin_with_an_error_get_its_status(event: str, status: int) -> None:
    with pytest.raises(RefusedStream) as refusal:
        asyncio.run(before_first_event(stream(event, "data: [DONE]\n\n")))
    assert refusal.value.status == status


def test_other_streams_keep_every_event() -> None:
    async def run() -> list[str]:
        return [event async for event in await before_first_event(stream("data: {}\n\n", "b", "c"))]

    assert asyncio.run(run()) == ["data: {}\n\n", "b", "c"]


@pytest.mark.contract("OBS-2")
def test_records_are_added_only_where_a_choice_ends() -> None:
    records = {1: ConstraintRecord("regex", "native", complete=True)}
    running = 'data: {"choices": [{"index": 1, "finish_reason": null}]}\n\n'
    other = 'data: {"choices": [{"index": 0, "finish_reason": "stop"}]}\n\n'
    ended = add_to_event('data: {"choices": [{"index": 1, "finish_reason": "stop"}]}\n\n', records)
    for event in (running, other, "data: [DONE]\n\n", ": keep-alive\n\n"):
        assert add_to_event(event, records) == event
    chunk = json.loads(ended.removeprefix("data: "))
    assert chunk["ninfer"]["constraint"] == chunk["choices"][0]["constraint"] == records[1].to_json()


@pytest.mark.contract("OBS-5", "OBS-1")
def test_preparation_counts_this_requests_own_work_once() -> None:
    from ninfer_vllm.host.preparation_time import take_ahead

    preparer = WatchedPreparer()
    slow = "|".join(f"{number}x" for number in range(3000))

    async def request() -> tuple[float, float]:
        await prepare(chat(structured_outputs={"regex": slow}), preparer)
        return take_ahead(), take_ahead()

    async def run() -> list[tuple[float, float]]:
        return [await asyncio.create_task(request()) for _ in range(2)]

    (cold, counted), (hit, _) = asyncio.run(run())
    assert cold > 10 * hit
    assert counted == 0
