"""What the replaced input processing leaves alone: requests that generate nothing or carry no constraint (GEN-9)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ninfer_patches.requests import process_inputs
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreRequest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.host.options import PluginOptions
from ninfer_vllm.host.prepare import Preparer

PROMPT = {"prompt_token_ids": [1, 2]}


class Modelless(Preparer):
    """A real preparer without a model, which has no end tokens to ask for."""

    eos_ids = ()

    def __init__(self) -> None:
        super().__init__(None, None, PluginOptions())  # type: ignore[arg-type]


def processed(params: Any) -> tuple[EngineCoreRequest, Preparer]:
    """The request that the host's processing makes behind ours."""

    def original(self: Any, request_id: str, prompt: Any, params: Any) -> EngineCoreRequest:
        sampling = params if isinstance(params, SamplingParams) else None
        pooling = params if isinstance(params, PoolingParams) else None
        return EngineCoreRequest(request_id, [1, 2], None, sampling, pooling, 0.0, None, None, None)

    preparer = Modelless()
    return process_inputs(original)(SimpleNamespace(ninfer=preparer), "a", PROMPT, params), preparer


@pytest.mark.contract("GEN-9")
@pytest.mark.parametrize(
    "params",
    [
        PoolingParams(task="embed"),
        PoolingParams(task="classify"),
        SamplingParams(max_tokens=1, prompt_logprobs=5),
        SamplingParams(max_tokens=8),
    ],
    ids=["embedding", "classification", "prompt scoring", "plain"],
)
def test_requests_without_a_constraint_pass_as_they_came(params: Any) -> None:
    request, preparer = processed(params)
    assert (request.sampling_params or request.pooling_params) is params
    if request.sampling_params is not None:
        assert request.sampling_params.extra_args is None
        assert request.sampling_params.structured_outputs is None
    assert preparer._vocabulary is None, "no vocabulary was adapted"


@pytest.mark.contract("GEN-9", "OBS-5")
def test_a_constraint_of_the_same_call_does_enter() -> None:
    request, _ = processed(SamplingParams(structured_outputs=OutputConstraint.choice(["yes", "no"])))
    assert request.sampling_params is not None
    (payload,) = (request.sampling_params.extra_args or {}).values()
    assert payload["kind"] == "choice"
    assert payload["seconds"] > 0
