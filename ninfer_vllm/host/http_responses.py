"""The Responses protocol: records and typed failures in its responses and events (OBS-2, ERR-5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from openai.types.responses import ResponseErrorEvent

from ninfer_vllm.errors import NInferError
from ninfer_vllm.host.client_errors import as_client_error
from ninfer_vllm.host.http_errors import param_of
from ninfer_vllm.host.http_records import closing
from ninfer_vllm.host.prepared import Prepared


async def watch_contexts(contexts: AsyncIterator[Any], prepared: Prepared) -> AsyncIterator[Any]:
    """Pass the host's contexts on; keep the record of the ended sample, and raise the error of a failed one."""
    async with closing(contexts):
        async for context in contexts:
            for output in () if context.last_output is None else context.last_output.outputs:
                if output.constraint is not None:
                    prepared.records[0] = output.constraint
                if output.constraint_error is not None:
                    raise as_client_error(output.constraint_error)
            yield context


def add_record(response: Any, prepared: Prepared) -> Any:
    """Attach the record to a whole response; an error response stays as it is."""
    if prepared.records and hasattr(response, "output"):
        response.ninfer = {"constraint": prepared.records[0].to_json()}
    return response


async def failing_as_event(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Pass events on; a failed row becomes an error event, with which the stream ends."""
    number = 0
    async with closing(events):
        try:
            async for event in events:
                number += 1
                yield event
        except NInferError as error:
            yield ResponseErrorEvent(
                type="error", code=error.code, message=str(error), param=param_of(error, None), sequence_number=number
            )
