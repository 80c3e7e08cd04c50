"""Seeded requests whose prompt is still being read, on a device without generator offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_discarded(runner: Any) -> Iterator[None]:
    """Take the generators of rows whose sample is discarded out of the batch meanwhile.

    The host draws for such a row and then winds its generator back, which the CPU's generators cannot do: the engine
    would stop. Without its generator the row draws from the common stream, and its own stays where it is.
    """
    if runner.device.type != "cpu":
        yield
        return
    batch = runner.input_batch
    discarded = runner.discard_request_mask.np[: batch.num_reqs].nonzero()[0]
    taken = {int(row): batch.generators.pop(int(row)) for row in discarded if int(row) in batch.generators}
    try:
        yield
    finally:
        batch.generators.update(taken)
