"""Every process layout of the host and every way to select the plugin, each with real requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ninfer_vllm.embedded import build
from tests.support.servers import Server, serving

pytestmark = [pytest.mark.engine, pytest.mark.server]
COLOURS = {"red", "green", "blue"}


def ask(server: Server, number: int) -> dict:
    response = server.post(
        "/v1/completions",
        {"model": "m", "prompt": f"question {number}", "temperature": 1.0, "max_tokens": 20, "seed": number,
         "structured_outputs": {"choice": sorted(COLOURS)}},
    )  # fmt: skip
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


def check(server: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        choices = list(pool.map(lambda number: ask(server, number), range(24)))
    assert {choice["text"] for choice in choices} <= COLOURS
    assert all(choice["constraint"]["terminated"] for choice in choices)
    refused = server.post("/v1/completions", {"model": "m", "prompt": "x", "structured_outputs": {"regex": "("}})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_regex"
    failed = server.post(
        "/v1/completions",
        {"model": "m", "prompt": "x", "structured_outputs": {"choice": ["a"]}, "allowed_token_ids": [5]},
    )
    assert failed.status_code == 422
    assert server.healthy()


@pytest.mark.contract("API-1", "API-10")
@pytest.mark.parametrize(
    ("command", "options", "environment"),
    [
        pytest.param("module", ("--plugin", "ninfer"), {}, id="api-server-module-with-option"),
        pytest.param("vllm", ("--plugin", "ninfer"), {}, id="vllm-serve-with-option"),
        pytest.param("module", (), {"VLLM_PLUGINS": "ninfer"}, id="environment"),
        pytest.param("module", ("--additional-config", '{"ninfer": {}}'), {}, id="additional-config"),
    ],
)
def test_every_way_of_selecting_the_plugin_serves_constraints(command: str, options, environment) -> None:
    with serving(build("tiny-qwen3"), *options, command=(command,), environment=environment) as server:
        check(server)


@pytest.mark.contract("API-1", "ENG-5")
@pytest.mark.parametrize(
    ("options", "environment"),
    [
        pytest.param(("--api-server-count", "2"), {}, id="two-api-servers"),
        pytest.param(("--data-parallel-size", "2", "--api-server-count", "2"), {}, id="data-parallel-2"),
        pytest.param(("--tensor-parallel-size", "2"), {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}, id="tensor-parallel-2"),
    ],
)
def test_every_process_layout_serves_constraints(options, environment) -> None:
    with serving(build("tiny-qwen3"), *options, environment=environment) as server:
        check(server)


@pytest.mark.contract("ENG-6")
def test_unselected_plugin_changes_nothing() -> None:
    with serving(build("tiny-qwen3"), command=("module",)) as server:
        response = server.post(
            "/v1/completions",
            {"model": "m", "prompt": "x", "max_tokens": 20, "structured_outputs": {"choice": sorted(COLOURS)}},
        ).json()
        assert response["choices"][0]["text"] in COLOURS
        assert "constraint" not in response["choices"][0]
        assert "ninfer" not in response
        refused = server.post("/v1/completions", {"model": "m", "prompt": "x", "structured_outputs": {"regex": "("}})
        assert refused.json()["error"]["code"] == 400, "the host's own error body"
