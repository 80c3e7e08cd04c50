"""Clients that people use and the requests of the documentation, against a real server (API-2 to API-4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from ninfer_vllm.embedded import build
from tests.support.servers import Server, serving
from tests.support.snippets import DOCS, NEEDS_SERVER, PAGES, blocks, posted
from tests.support.soak import resident_bytes, soak

pytestmark = [pytest.mark.engine, pytest.mark.server, pytest.mark.contract("API-3", "API-5")]

EXTRA = {"chat_template_kwargs": {"enable_thinking": False}}
MESSAGES = [{"role": "user", "content": "hi"}]
CLIENTS_PYTHON = Path(sys.prefix) / "clients" / "bin" / "python"
"""Has the libraries that cannot be installed beside the host."""
INSTRUCTOR_SCRIPT = Path(__file__).resolve().parents[1] / "support" / "instructor_client.py"
SOAK_S = float(os.environ.get("NINFER_SOAK_SECONDS", "20"))
"""Seconds of the soak: short here, hours where somebody asks for them."""
GROWTH_BYTES = 128 << 20
"""What allocators may keep while the load is the same."""
MAX_TOKENS = 200
"""A random model thinks and writes without end; the pages' own model needs no bound."""


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    item: Literal["tea", "coffee"]
    count: int = Field(ge=1, le=99)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(build("tiny-qwen3"), "--served-model-name", "m", "embedded", "MODEL") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_openai_parses_into_the_model(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="m", messages=MESSAGES, response_format=Order, max_tokens=60, extra_body=EXTRA
    )
    assert isinstance(answer.choices[0].message.parsed, Order)


def test_openai_streams_into_the_model(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="m", messages=MESSAGES, response_format=Order, max_tokens=60, extra_body=EXTRA
    ) as stream:
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, Order)


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_gives_an_instance(server: Server, method: str) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    model = langchain.ChatOpenAI(
        model="m", base_url=f"{server.url}/v1", api_key="none", max_tokens=120, max_retries=0, extra_body=EXTRA
    )
    assert isinstance(model.with_structured_output(Order, method=method, strict=True).invoke("hi"), Order)


@pytest.mark.parametrize("output", ["NativeOutput", "ToolOutput"])
def test_pydantic_ai_gives_an_instance(server: Server, output: str) -> None:
    agents = pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key="none")
    settings = {"max_tokens": 120, "extra_body": EXTRA}
    kind = getattr(agents, output)(Order, strict=True)
    agent = agents.Agent(OpenAIChatModel("m", provider=provider), output_type=kind, model_settings=settings, retries=0)
    assert isinstance(agent.run_sync("hi").output, Order)


@pytest.mark.skipif(not CLIENTS_PYTHON.exists(), reason="the client libraries' environment was not made (make clients)")
def test_instructor_gives_an_instance(server: Server) -> None:
    """It cannot be installed beside the host, so it runs with an environment of its own."""
    command = [str(CLIENTS_PYTHON), "-I", str(INSTRUCTOR_SCRIPT), f"{server.url}/v1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["is_instance"] is True
    assert Order.model_validate(told["fields"]).model_dump() == told["fields"]


def test_clients_of_the_documentation_run(server: Server) -> None:
    scripts = [text for page in PAGES for text in blocks(page, "python") if NEEDS_SERVER.search(text)]
    assert scripts
    for script in scripts:
        assert "http://localhost:8000/" in script
        bounded = script.replace("http://localhost:8000/", f"{server.url}/").replace(
            "    messages=", f"    max_tokens={MAX_TOKENS},\n    messages="
        )
        exec(compile(bounded, "documentation", "exec"), {})


def test_requests_of_the_documentation_are_answered(server: Server) -> None:
    shown = [request for page in PAGES for request in posted(page)]
    assert {request.path for request in shown} == {"/v1/chat/completions", "/ninfer/check"}
    for request in shown:
        body = json.loads(request.body)
        chat = request.path.startswith("/v1/")
        answer = server.post(request.path, {**body, "max_tokens": MAX_TOKENS} if chat else body)
        assert answer.status_code == 200, answer.text
        if request.path == "/ninfer/check":
            (told,) = blocks(DOCS / "endpoints.md", "json")
            assert answer.json() == json.loads(told)


@pytest.mark.contract("SEC-3", "ERR-5")
def test_soak_leaves_a_healthy_engine_and_flat_memory(server: Server) -> None:
    soak(server, SOAK_S / 3, seed=1)
    before = resident_bytes(server)
    done = soak(server, SOAK_S, seed=2)
    assert resident_bytes(server) - before < GROWTH_BYTES
    assert all(done[sort] > 0 for sort in ("good", "bad", "cancelled", "dead")), done
    assert server.healthy()
    soak(server, 1, seed=3)
