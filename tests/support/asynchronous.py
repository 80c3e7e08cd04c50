"""The host's asynchronous scheduling on a CPU, where it turns it off: its scheduler, its queue of batches, its worker.

Theory of operation. The host overlaps a step with the next one: it schedules before it knows the tokens, and its worker
counts drafts as accepted until it knows better. All of that is ordinary code. Only the copies between device and host
are ordered by CUDA's streams and events; on a CPU a copy is done when it returns, so there they may be empty.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


def schedule_asynchronously() -> None:
    """From now on engines that start in this process schedule asynchronously."""
    import torch
    from vllm.platforms.cpu import CpuPlatform

    torch.cuda.Stream, torch.cuda.Event, torch.Event = _Stream, _Event, _Event  # type: ignore[misc,assignment]
    torch.cuda.current_stream = lambda *_: _Stream()  # type: ignore[assignment,return-value]
    torch.cuda.stream = lambda _: nullcontext()  # type: ignore[assignment,return-value]
    checked = CpuPlatform.check_and_update_config

    def check_and_update(config: Any) -> None:
        checked(config)
        config.scheduler_config.async_scheduling = True

    CpuPlatform.check_and_update_config = staticmethod(check_and_update)  # type: ignore[method-assign,assignment]


class _Event:
    """What is recorded has happened."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, *_: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait(self, *_: Any) -> None: ...


class _Stream:
    """What is put on it is done."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait_stream(self, _: Any) -> None: ...

    def wait_event(self, _: Any) -> None: ...

    def synchronize(self) -> None: ...

    def record_event(self, *_: Any) -> _Event:
        return _Event()
