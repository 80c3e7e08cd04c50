"""The API process: constraints are prepared where the host turns inputs into engine requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from vllm.sampling_params import SamplingParams

from ninfer_vllm.host.options import options_of
from ninfer_vllm.host.prepare import Preparer, host_validation_is_off, host_validation_off
from ninfer_vllm.host.reasoning_gate import ReasoningGate
from ninfer_vllm.host.turns import turn_of


def create_preparer(original: Callable[..., None]) -> Callable[..., None]:
    """Give the input processor of a selected engine a preparer, and any other None."""

    @wraps(original)
    def init(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        original(self, vllm_config, *args, **kwargs)
        options = options_of(vllm_config)
        if options is None:
            self.ninfer = None
            return
        gate = ReasoningGate.of(vllm_config, self.tokenizer)
        self.ninfer = Preparer(vllm_config.model_config, self.tokenizer, options, gate)

    return init


def process_inputs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Check the constraint before anything else, and send its lowered grammar with the request."""

    @wraps(original)
    def process(self: Any, request_id: str, prompt: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        preparer: Preparer | None = self.ninfer
        if preparer is None or not isinstance(params, SamplingParams):
            return original(self, request_id, prompt, params, *args, **kwargs)
        constraint = preparer.check(params)
        budget = None if constraint is None else params.thinking_token_budget
        if budget is not None:
            # The session forces the close itself; the host would count the same tokens once more (THK-7).
            params = params.clone()
            params.thinking_token_budget = None
        with host_validation_off():
            request = original(self, request_id, prompt, params, *args, **kwargs)
        preparer.attach(constraint, request, turn_of(prompt), budget)
        return request

    return process


def validate_structured_outputs(original: Callable[..., None]) -> Callable[..., None]:
    """Leave constraints of a selected engine to its preparer."""

    @wraps(original)
    def validate(self: Any, *args: Any, **kwargs: Any) -> None:
        if not host_validation_is_off():
            original(self, *args, **kwargs)

    return validate
