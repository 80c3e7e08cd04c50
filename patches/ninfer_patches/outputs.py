"""The API process: records on their way to outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ninfer_vllm.host.results import carry_records, publish_record, take_records


def process_outputs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Take records out of the carrier field before the host reads it."""

    @wraps(original)
    def process(self: Any, engine_core_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        take_records(self, engine_core_outputs)
        return original(self, engine_core_outputs, *args, **kwargs)

    return process


def new_completion_output(original: Callable[..., Any]) -> Callable[..., Any]:
    """Put the record on an ended sample's output."""

    @wraps(original)
    def create(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = original(self, *args, **kwargs)
        publish_record(self, output)
        return output

    return create


def add_result(original: Callable[..., None]) -> Callable[..., None]:
    """Keep records where the host merges results."""

    @wraps(original)
    def add(self: Any, next_output: Any, *args: Any, **kwargs: Any) -> None:
        original(self, next_output, *args, **kwargs)
        carry_records(self, next_output)

    return add


def with_room_for_record(original: Any) -> Any:
    """The same class, with a default for the record."""
    original.ninfer_result = None
    return original


def with_record_members(original: Any) -> Any:
    """The same class, with defaults for the members we add."""
    original.constraint = None
    original.constraint_error = None
    return original
