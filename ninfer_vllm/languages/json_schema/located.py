"""Limits that know no place, reported at the place in the schema that met them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ninfer_vllm.errors import LimitExceeded


@contextmanager
def located(pointer: str) -> Iterator[None]:
    """A limit exceeded inside the block is reported at the pointer, unless it names one."""
    try:
        yield
    except LimitExceeded as error:
        if error.pointer is not None:
            raise
        raise replace(error, pointer=pointer) from None
