"""The OpenAI endpoints of a real server: constraints kept, refusals located, records published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import httpx
import jsonschema
import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from ninfer_vllm.embedded import build
from tests.support.servers import ANSWER_SECONDS, Server, serving

pytestmark = [pytest.mark.engine, pytest.mark.server]
MESSAGES = [{"role": "user", "content": "hi"}]
NO_THINKING = {"enable_thinking": False}
MAX_TOKENS = 120
"""More than the longest order has bytes, so that none is cut, whatever is drawn."""


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    item: Literal["tea", "coffee"]
    count: int = Field(ge=1, le=99)
    note: str = Field(max_length=3)


SCHEMA = Order.model_json_schema()
JSON_FORMAT = {"type": "json_schema", "json_schema": {"name": "order", "schema": SCHEMA}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(build("tiny-qwen3"), "--constraint-timings") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def chat(server: Server, **fields: Any) -> httpx.Response:
    body = {"model": "m", "messages": MESSAGES, "max_tokens": MAX_TOKENS, "chat_template_kwargs": NO_THINKING, **fields}
    return server.post("/v1/chat/completions", body)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.contract("API-3", "API-5", "OBS-2", "JSO-2")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_response_format_schema_is_kept_and_recorded(client: openai.OpenAI, temperature: float) -> None:
    answer = client.chat.completions.create(
        model="m", messages=MESSAGES, response_format=JSON_FORMAT, temperature=temperature, max_tokens=MAX_TOKENS,
        extra_body={"chat_template_kwargs": NO_THINKING},
    )  # fmt: skip
    (choice,) = answer.choices
    jsonschema.validate(json.loads(choice.message.content), SCHEMA)
    record = answer.ninfer["constraint"]
    assert choice.finish_reason == "stop"
    assert record == choice.constraint
    assert (record["kind"], record["complete"], record["terminated"], record["branch"]) == (
        "json_schema", True, True, "content",
    )  # fmt: skip
    assert record["mask_positions"] >= answer.usage.completion_tokens
    assert set(record["timings"]) == {"prepare_s", "mask_s", "commit_s"}


@pytest.mark.contract("API-3", "OBS-2")
def test_streamed_text_is_the_whole_text_and_the_last_chunk_carries_the_record(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="m", messages=MESSAGES, response_format=JSON_FORMAT, temperature=1.0, max_tokens=MAX_TOKENS, stream=True,
        extra_body={"chat_template_kwargs": NO_THINKING},
    )  # fmt: skip
    chunks = [chunk for chunk in stream if chunk.choices]
    Order.model_validate_json("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].ninfer["constraint"]["complete"] is True
    assert not any(hasattr(chunk, "ninfer") for chunk in chunks[:-1])


@pytest.mark.contract("API-3", "API-4", "RGX-1", "CHO-1", "GBNF-1", "JSO-1")
@pytest.mark.parametrize(
    ("member", "value", "valid"),
    [
        ("regex", r"\d{4}-\d{2}-\d{2}", lambda text: re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text)),
        ("choice", ["yes", "no\nplease", ""], lambda text: text in {"yes", "no\nplease", ""}),
        (
            "grammar",
            'root ::= "status=" ("ok" | "error") "\\n"',
            lambda text: text in {"status=ok\n", "status=error\n"},
        ),
        ("json", SCHEMA, Order.model_validate_json),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_structured_outputs_hold_on_both_endpoints(server: Server, member, value, valid, stream: bool) -> None:
    fields = {"structured_outputs": {member: value}, "temperature": 1.0, "stream": stream, "max_tokens": MAX_TOKENS}
    chatted = chat(server, **fields)
    completed = server.post("/v1/completions", {"model": "m", "prompt": "a", **fields})
    for response in (chatted, completed):
        assert response.status_code == 200, response.text
        choices = [chunk["choices"][0] for chunk in (events(response) if stream else [response.json()])]
        text = "".join(_text(choice) for choice in choices)
        assert choices[-1]["finish_reason"] == "stop"
        assert choices[-1]["constraint"]["complete"]
        assert valid(text) is not None
        assert valid(text) is not False


def _text(choice: dict[str, Any]) -> str:
    holder = choice.get("message") or choice.get("delta") or choice
    return holder.get("content") or holder.get("text") or ""


@pytest.mark.contract("REQ-7", "SES-1", "OBS-1")
def test_every_sample_and_every_prompt_has_its_own_session(server: Server) -> None:
    response = server.post(
        "/v1/completions",
        {"model": "m", "prompt": ["a", "b"], "n": 3, "temperature": 1.0, "max_tokens": 20,
         "structured_outputs": {"choice": ["red", "green", "blue"]}},
    ).json()  # fmt: skip
    assert [choice["index"] for choice in response["choices"]] == list(range(6))
    assert all(choice["text"] in {"red", "green", "blue"} for choice in response["choices"])
    assert all(choice["constraint"]["terminated"] for choice in response["choices"])


REFUSALS = [
    ({"structured_outputs": {"regex": "a(?=b)"}}, "invalid_regex", "structured_outputs/regex", {"offset": 1}),
    (
        {"structured_outputs": {"grammar": 'root ::= "a"\nb ::= ('}},
        "invalid_grammar", "structured_outputs/grammar", None,
    ),
    ({"structured_outputs": {"json": {"type": "nope"}}}, "invalid_schema", "structured_outputs/json/type", None),
    ({"structured_outputs": {"choice": []}}, "invalid_choice", "structured_outputs/choice", {}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {
            "name": "x", "schema": {"properties": {"a": {"$dynamicRef": "#x"}}}}}},
        "unsupported_schema", "response_format/json_schema/schema/properties/a/$dynamicRef",
        {"pointer": "/properties/a/$dynamicRef"},
    ),
    ({"structured_outputs": {"choice": ["a"], "regex": "a"}}, "conflicting_constraint", "structured_outputs", None),
    (
        {"structured_outputs": {"choice": ["a"]}, "response_format": {"type": "json_object"}},
        "conflicting_constraint", "structured_outputs", None,
    ),
    ({"structured_outputs": {"choice": ["a"]}, "stop": ["x"]}, "conflicting_constraint", "stop", None),
    (
        {"structured_outputs": {"choice": ["a"]}, "use_beam_search": True},
        "conflicting_constraint", "use_beam_search", None,
    ),
    ({"guided_json": {"type": "object"}}, "conflicting_constraint", "guided_json", None),
]  # fmt: skip


@pytest.mark.contract("ERR-1", "ERR-2", "JSD-8", "REQ-2", "REQ-7", "API-8", "GBNF-2", "RGX-6")
@pytest.mark.parametrize(("fields", "code", "param", "place"), REFUSALS)
@pytest.mark.parametrize("stream", [False, True])
def test_refusals_are_located_400s_also_when_streaming_was_asked_for(
    server: Server, fields, code: str, param: str, place, stream: bool
) -> None:
    response = chat(server, stream=stream, **fields)
    assert response.status_code == 400, response.text
    assert response.headers["content-type"].startswith("application/json")
    error = response.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)
    assert place is None or error["place"] == place
    assert error["message"]


@pytest.mark.contract("ERR-2")
def test_the_official_client_raises_its_bad_request_error_with_our_code(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        client.completions.create(model="m", prompt="a", extra_body={"structured_outputs": {"regex": "["}})
    assert (refusal.value.code, refusal.value.param) == ("invalid_regex", "structured_outputs/regex")


@pytest.mark.contract("ERR-2", "API-4")
def test_other_protocols_refuse_with_their_own_envelope(server: Server) -> None:
    form = {"format": {"type": "json_schema", "schema": {"type": "nope"}}}
    message = server.post("/v1/messages", {"model": "m", "messages": MESSAGES, "max_tokens": 8, "output_config": form})
    assert (message.status_code, message.json()["type"]) == (400, "error")
    assert "/type" in message.json()["error"]["message"]
    response = server.post(
        "/v1/responses",
        {
            "model": "m",
            "input": "x",
            "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nope"}}},
        },
    )
    assert response.status_code == 400
    assert "/type" in response.json()["error"]["message"]


@pytest.mark.contract("ERR-5", "REQ-8")
def test_a_row_without_candidates_is_a_422_before_anything_was_streamed(server: Server) -> None:
    for stream in (False, True):
        response = chat(server, structured_outputs={"choice": ["a"]}, allowed_token_ids=[5, 6], stream=stream)
        assert response.status_code == 422
        assert response.json()["error"]["code"] == "constraint_dead_end"


@pytest.mark.contract("ERR-5", "ERR-4")
def test_a_row_that_fails_in_mid_stream_ends_with_an_error_event(server: Server) -> None:
    allowed = _ids(server, "a")
    response = chat(server, structured_outputs={"regex": "a{3}b"}, allowed_token_ids=allowed, stream=True)
    assert response.status_code == 200
    *chunks, last = events(response)
    assert last["error"]["code"] == "constraint_dead_end"
    assert "".join(_text(chunk["choices"][0]) for chunk in chunks) == "aaa"


def _ids(server: Server, text: str) -> list[int]:
    tokens: list[int] = server.post("/tokenize", {"model": "m", "prompt": text, "add_special_tokens": False}).json()[
        "tokens"
    ]
    return tokens


@pytest.mark.contract("ENG-6", "MSK-7")
def test_unconstrained_requests_are_untouched(server: Server) -> None:
    response = chat(server, max_tokens=4).json()
    assert "ninfer" not in response
    assert "constraint" not in response["choices"][0]
    assert "ninfer" not in chat(server, max_tokens=4, stream=True).text


@pytest.mark.contract("ERR-6", "ENG-4", "END-2")
def test_mixed_load_with_refused_failing_and_abandoned_requests_leaves_a_healthy_server(server: Server) -> None:
    def one(number: int) -> int:
        if number % 5 == 0:
            return chat(server, structured_outputs={"regex": "("}).status_code
        if number % 5 == 1:
            return chat(server, structured_outputs={"choice": ["a"]}, allowed_token_ids=[5]).status_code
        if number % 5 == 2:
            return _abandon(server)
        response = chat(server, response_format=JSON_FORMAT, temperature=1.0, stream=number % 5 == 3)
        if number % 5 == 4:
            Order.model_validate_json(response.json()["choices"][0]["message"]["content"])
        return response.status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(one, range(40)))
    assert statuses == [400, 422, 0, 200, 200] * 8
    assert server.healthy()
    assert chat(server, structured_outputs={"choice": ["a"]}).json()["choices"][0]["message"]["content"] == "a"


def _abandon(server: Server) -> int:
    body = {
        "model": "m",
        "messages": MESSAGES,
        "min_tokens": 400,
        "max_tokens": 400,
        "stream": True,
        "structured_outputs": {"regex": "[ab]+"},
    }
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=ANSWER_SECONDS) as response:
        next(response.iter_lines())
    return 0
