"""Clients that people use, against a real server: a pydantic model goes in, an instance comes out (API-2, API-3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from ninfer_vllm.embedded import build
from tests.support.servers import Server, serving

pytestmark = [pytest.mark.engine, pytest.mark.server, pytest.mark.contract("API-3", "API-5")]

EXTRA = {"chat_template_kwargs": {"enable_thinking": False}}
MESSAGES = [{"role": "user", "content": "hi"}]


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    item: Literal["tea", "coffee"]
    count: int = Field(ge=1, le=99)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(build("tiny-qwen3")) as running:
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


def test_langchain_gives_an_instance(server: Server) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    model = langchain.ChatOpenAI(
        model="m", base_url=f"{server.url}/v1", api_key="none", max_tokens=60, max_retries=0, extra_body=EXTRA
    )
    assert isinstance(model.with_structured_output(Order, method="json_schema").invoke("hi"), Order)


def test_pydantic_ai_gives_an_instance(server: Server) -> None:
    agents = pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key="none")
    settings = {"max_tokens": 60, "extra_body": EXTRA}
    agent = agents.Agent(
        OpenAIChatModel("m", provider=provider), output_type=agents.NativeOutput(Order), model_settings=settings
    )
    assert isinstance(agent.run_sync("hi").output, Order)


def test_instructor_gives_an_instance(client: openai.OpenAI) -> None:
    instructor = pytest.importorskip("instructor", reason="instructor is not installed")
    patched = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
    found = patched.chat.completions.create(
        model="m", messages=MESSAGES, response_model=Order, max_tokens=60, max_retries=0, extra_body=EXTRA
    )
    assert isinstance(found, Order)
