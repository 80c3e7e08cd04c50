"""The engine core: our manager, and our work around the scheduler's update."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ninfer_vllm.host.manager import SessionManager
from ninfer_vllm.host.options import options_of
from ninfer_vllm.host.scheduling import after_update, before_update


def choose_manager(original: type) -> Callable[[Any], Any]:
    """Our manager for an engine that selected the plugin, the host's for any other."""

    def create(vllm_config: Any) -> Any:
        options = options_of(vllm_config)
        return original(vllm_config) if options is None else SessionManager(vllm_config, options)

    return create


def update_from_output(original: Callable[..., Any]) -> Callable[..., Any]:
    """Preview before the host's update; settle previews and records after it."""

    @wraps(original)
    def update(self: Any, scheduler_output: Any, model_runner_output: Any) -> Any:
        if not isinstance(self.structured_output_manager, SessionManager):
            return original(self, scheduler_output, model_runner_output)
        before_update(self, scheduler_output, model_runner_output)
        outputs = original(self, scheduler_output, model_runner_output)
        after_update(self, outputs)
        return outputs

    return update


def free_request(original: Callable[..., Any]) -> Callable[..., Any]:
    """Release the session with its request."""

    @wraps(original)
    def free(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        freed = original(self, request, *args, **kwargs)
        if isinstance(self.structured_output_manager, SessionManager):
            self.structured_output_manager.release(request.request_id, request.client_index)
        return freed

    return free
