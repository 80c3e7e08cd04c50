"""The `constraint` record in HTTP responses: on each choice and, of the first one, as member `ninfer` (OBS-2)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from vllm.entrypoints.serve.engine.protocol import ErrorResponse

from ninfer_vllm.record import ConstraintRecord

Records = dict[int, ConstraintRecord]


async def collect(
    results: AsyncIterator[Any], records: Records, samples: int, reasons: dict[int, str] | None = None
) -> AsyncIterator[Any]:
    """Pass results on and keep the records, and the true finish reasons, of ended samples by choice index.

    `samples` is the request's n: the choice index of a completion batch counts prompt × n + sample.
    """
    async with closing(results):
        async for item in results:
            prompt, result = item if isinstance(item, tuple) else (0, item)
            for output in result.outputs:
                index = prompt * samples + output.index
                if output.constraint is not None:
                    records[index] = output.constraint
                if output.finish_reason is not None and reasons is not None:
                    reasons[index] = output.finish_reason
            yield item


def records_of(results: Sequence[Any]) -> Records:
    """The records of whole results, by the choice index the host gives them: in order of results and samples."""
    outputs = (output for result in results for output in result.outputs)
    return {index: output.constraint for index, output in enumerate(outputs) if output.constraint is not None}


def add_to_response(response: Any, records: Records) -> Any:
    """Attach records to a whole response; an error response stays as it is."""
    if not records or isinstance(response, ErrorResponse):
        return response
    for choice in response.choices:
        if choice.index in records:
            choice.constraint = records[choice.index].to_json()
    response.ninfer = {"constraint": records[min(records)].to_json()}
    return response


def add_to_event(event: str, records: Records) -> str:
    """Attach records to a server-sent event if it ends a choice that has one."""
    if not records or not event.startswith("data: {"):
        return event
    chunk = json.loads(event[len("data: ") :])
    ended = [
        choice for choice in chunk.get("choices", ()) if choice.get("finish_reason") and choice["index"] in records
    ]
    if not ended:
        return event
    for choice in ended:
        choice["constraint"] = records[choice["index"]].to_json()
    chunk["ninfer"] = {"constraint": ended[0]["constraint"]}
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"


def state_reasons(response: Any, reasons: Mapping[int, str]) -> Any:
    """Let a choice that was cut say so, also where the host would name its calls (TOOL-10)."""
    if not isinstance(response, ErrorResponse):
        for choice in response.choices:
            if reasons.get(choice.index) == "length":
                choice.finish_reason = "length"
    return response


@asynccontextmanager
async def closing(results: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Close an asynchronous generator when its consumer goes away, so that the host aborts the request at once."""
    try:
        yield
    finally:
        if isinstance(results, AsyncGenerator):
            await results.aclose()
