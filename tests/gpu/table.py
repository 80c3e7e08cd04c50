"""Times as a table."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tests.gpu.timings import Timing

HEAD = "| operation | B | K | V | µs | floor bytes | GB/s of the floor | host µs | host / ours |"


def as_table(batches: Sequence[Sequence[Timing]], device: torch.device) -> str:
    """Markdown, one line an operation and shape."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "Triton's interpreter: times mean nothing"
    lines = [f"Device: {name}", "", HEAD, "|---|---|---|---|---|---|---|---|---|"]
    for timing in (timing for batch in batches for timing in batch):
        rate = timing.floor_bytes / timing.microseconds / 1e3
        theirs = timing.host_microseconds
        compared = "- | -" if theirs is None else f"{theirs:.1f} | {theirs / timing.microseconds:.2f}"
        shape = timing.shape
        lines.append(
            f"| {timing.operation} | {shape.batch} | {shape.drafts} | {shape.size} | {timing.microseconds:.1f} "
            f"| {timing.floor_bytes} | {rate:.1f} | {compared} |"
        )
    return "\n".join(lines)
