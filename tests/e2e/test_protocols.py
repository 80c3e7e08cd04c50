"""Chat, Responses and Messages on a real server, asked by the official clients: formats, tools, streams, records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import jsonschema
import openai
import pytest

from ninfer_vllm.embedded import build
from tests.support.servers import Server, serving
from tests.support.tools import BOOK, chat_tools, check_call, messages_tools, responses_tools

pytestmark = [pytest.mark.engine, pytest.mark.server]

ASKED = [{"role": "user", "content": "Book a room."}]
SILENT = {"chat_template_kwargs": {"enable_thinking": False}}
FORM = {"type": "json_schema", "json_schema": {"name": "booking", "schema": BOOK}}
MARKERS = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>")
SEEDS = range(4)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Full precision, so that a stream draws the same as a whole answer, whose prompt was not in the cache yet.
    with serving(build("tiny-qwen3"), "--constraint-timings", "--dtype", "float32") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def messenger(server: Server) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)


def chat(client: openai.OpenAI, **fields: Any) -> Any:
    extra = {**SILENT, **fields.pop("extra_body", {})}
    settings = {"model": "m", "messages": ASKED, "max_tokens": 150, "temperature": 1.0, "extra_body": extra}
    return client.chat.completions.create(**{**settings, **fields})


def streamed(client: openai.OpenAI, **fields: Any) -> tuple[str, str, list[tuple[str, str]], str, dict[str, Any]]:
    """Reasoning, content, calls, finish reason and record of a stream, put together."""
    reasoning = content = reason = ""
    calls: dict[int, list[str]] = {}
    record: dict[str, Any] = {}
    for chunk in chat(client, stream=True, **fields):
        (choice,) = chunk.choices
        content += choice.delta.content or ""
        reasoning += getattr(choice.delta, "reasoning", None) or ""
        for call in choice.delta.tool_calls or []:
            parts = calls.setdefault(call.index, ["", ""])
            assert (call.id is not None) == (call.function.name is not None), "a call has one beginning"
            parts[0] += call.function.name or ""
            parts[1] += call.function.arguments or ""
        if choice.finish_reason is not None:
            reason, record = choice.finish_reason, chunk.ninfer["constraint"]
    return reasoning, content, [(name, text) for name, text in calls.values()], reason, record


def whole(client: openai.OpenAI, **fields: Any) -> tuple[str, str, list[tuple[str, str]], str, dict[str, Any]]:
    answer = chat(client, **fields)
    (choice,) = answer.choices
    message = choice.message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
    reasoning = getattr(message, "reasoning", None) or ""
    return reasoning, message.content or "", calls, choice.finish_reason, answer.ninfer["constraint"]


POLICIES: dict[str, dict[str, Any]] = {
    "auto": {"tool_choice": "auto"},
    "required": {"tool_choice": "required"},
    "named": {"tool_choice": {"type": "function", "function": {"name": "book"}}},
    "one at most": {"tool_choice": "auto", "parallel_tool_calls": False},
    "allowed": {
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "ping"}}]},
        }
    },
    "none": {"tool_choice": "none"},
    "json or calls": {"tool_choice": "auto", "response_format": FORM},
}


@pytest.mark.contract("TOOL-4", "TOOL-5", "TOOL-10", "TOOL-12", "TOOL-14", "THK-8", "API-3", "OBS-1", "OBS-2", "REQ-4")
@pytest.mark.parametrize("policy", POLICIES)
def test_chat_calls_are_valid_honest_and_the_same_streamed_and_whole(client: openai.OpenAI, policy: str) -> None:
    finished = 0
    for seed in SEEDS:
        fields = {"tools": chat_tools(), "seed": seed, **POLICIES[policy]}
        answer = whole(client, **fields)
        again = streamed(client, **fields)
        assert answer[:4] == again[:4]
        assert {**answer[4], "timings": None, "cache": None} == {**again[4], "timings": None, "cache": None}
        _, content, calls, reason, record = answer
        for name, arguments in calls:
            check_call(name, arguments)
        assert not any(marker in content for marker in MARKERS)
        finished += reason != "length"
        _check_policy(policy, content, calls, reason, record)
    assert finished or policy in ("auto", "none", "one at most"), "random text seldom ends in time, calls do"


def _check_policy(policy: str, content: str, calls: list[Any], reason: str, record: dict[str, Any]) -> None:
    names = [name for name, _ in calls]
    if policy in ("required", "named", "allowed"):
        assert content == ""
        assert record["branch"] in ("tools", "undecided")
        assert reason == "length" or names
    if policy == "named":
        assert names in ([], ["book"])
        assert reason in ("stop", "length")
    elif reason != "length":
        assert reason == ("tool_calls" if names else "stop")
    if policy == "allowed":
        assert set(names) <= {"ping"}
    if policy == "none":
        assert names == []
    if policy == "one at most":
        assert len(names) <= 1
    if policy == "json or calls" and reason == "stop":
        jsonschema.validate(json.loads(content), BOOK)
        assert (record["branch"], record["complete"]) == ("content", True)


@pytest.mark.contract("TOOL-10", "GEN-3")
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_cut_has_no_arguments_and_says_length(client: openai.OpenAI, stream: bool) -> None:
    ask = streamed if stream else whole
    for cut in (3, 8, 12):
        reasoning, content, calls, reason, record = ask(
            client, tools=chat_tools()[:1], tool_choice="required", max_tokens=cut, seed=1
        )
        assert (reasoning, content, calls, reason) == ("", "", [], "length")
        assert (record["complete"], record["terminated"]) == (False, False)


@pytest.mark.contract("THK-3", "THK-7", "THK-8", "TOOL-5")
def test_reasoning_then_json_or_a_call_each_in_its_field(client: openai.OpenAI) -> None:
    thinking = {"chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 8}
    for fields in ({"response_format": FORM}, {"tools": chat_tools()[:1], "tool_choice": "required"}):
        asked = {"extra_body": thinking, "seed": 2, "max_tokens": 200, **fields}
        answer = whole(client, **asked)
        assert answer[:4] == streamed(client, **asked)[:4]
        reasoning, content, calls, reason, record = answer
        assert reasoning
        assert not any(marker in reasoning + content for marker in MARKERS)
        assert 8 <= record["reasoning_tokens"] <= 12
        if reason != "length" and calls:
            check_call(*calls[0])
        elif reason != "length":
            jsonschema.validate(json.loads(content), BOOK)


@pytest.mark.contract("CON-1", "CON-2", "API-3")
def test_a_chat_message_is_continued_and_only_the_suffix_published(client: openai.OpenAI) -> None:
    begun = [*ASKED, {"role": "assistant", "content": '{"city":"Oslo","nights":'}]
    options = {"continue_final_message": True, "add_generation_prompt": False}
    fields = {"messages": begun, "response_format": FORM, "extra_body": options, "seed": 1}
    answer = whole(client, **fields)
    assert answer[:4] == streamed(client, **fields)[:4]
    jsonschema.validate(json.loads(begun[-1]["content"] + answer[1]), BOOK)
    assert (answer[3], answer[4]["complete"]) == ("stop", True)


@pytest.mark.contract("API-4", "TOOL-14", "OBS-2", "TOOL-10")
def test_responses_formats_and_calls_hold_streamed_and_whole(client: openai.OpenAI) -> None:
    form = {"format": {"type": "json_schema", "name": "booking", "schema": BOOK}}
    for fields in (
        {"text": form},
        {"tools": responses_tools(), "tool_choice": "required"},
        {"tools": responses_tools(), "tool_choice": {"type": "function", "name": "book"}},
        {"tools": responses_tools(), "tool_choice": "auto", "parallel_tool_calls": False, "text": form},
    ):
        # The protocol takes no seed; greedy decoding repeats itself.
        asked: dict[str, Any] = {"model": "m", "input": "Book a room.", "max_output_tokens": 150, "temperature": 0.0}
        answer = client.responses.create(**asked, extra_body=SILENT, **fields)
        *_, last = client.responses.create(stream=True, **asked, extra_body=SILENT, **fields)
        items = _items(answer)
        assert items == _items(last.response)
        assert answer.ninfer["constraint"]["kind"] in ("json_schema", "tools")
        assert last.response.ninfer["constraint"]["complete"] == answer.ninfer["constraint"]["complete"]
        assert (answer.status == "completed") == answer.ninfer["constraint"]["terminated"]
        for kind, name, text in items:
            if kind == "function_call":
                check_call(name, text)
            elif answer.status == "completed":
                jsonschema.validate(json.loads(text), BOOK)


def _items(response: Any) -> list[tuple[str, str, str]]:
    return [
        (item.type, item.name, item.arguments)
        if item.type == "function_call"
        else (item.type, "", item.content[0].text)
        for item in response.output
    ]


@pytest.mark.contract("THK-7", "THK-8", "API-4")
def test_responses_think_within_a_budget_and_answer_behind_it(client: openai.OpenAI) -> None:
    form = {"format": {"type": "json_schema", "name": "booking", "schema": BOOK}}
    thinking = {"chat_template_kwargs": {"enable_thinking": True}, "thinking_token_budget": 8}
    asked: dict[str, Any] = {"model": "m", "input": "Book a room.", "max_output_tokens": 200, "temperature": 0.0}
    answer = client.responses.create(**asked, text=form, extra_body=thinking)
    *_, last = client.responses.create(stream=True, **asked, text=form, extra_body=thinking)
    assert answer.status == "completed"
    assert 8 <= answer.ninfer["constraint"]["reasoning_tokens"] <= 12
    (reasoning, _, thought), (message, _, text) = _items(answer)
    assert (reasoning, message) == ("reasoning", "message")
    jsonschema.validate(json.loads(text), BOOK)
    assert thought
    assert not any(marker in thought + text for marker in MARKERS)
    assert _items(last.response) == _items(answer)


@pytest.mark.contract("API-4", "TOOL-14", "OBS-2", "CON-1", "TOOL-10")
@pytest.mark.parametrize(
    "fields",
    [
        {"extra_body": {"output_config": {"format": {"type": "json_schema", "schema": BOOK}}}},
        {"tools": messages_tools(), "tool_choice": {"type": "any"}},
        {"tools": messages_tools(), "tool_choice": {"type": "tool", "name": "book"}},
        {"tools": messages_tools(), "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ],
    ids=["format", "any", "tool", "auto"],
)
def test_messages_formats_and_calls_hold_streamed_and_whole(
    messenger: anthropic.Anthropic, fields: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"model": "m", "max_tokens": 150, "messages": ASKED, **fields}
    # The client has no parameter for the temperature any more; greedy decoding repeats itself.
    asked["extra_body"] = {**SILENT, "temperature": 0.0, **asked.get("extra_body", {})}
    answer = messenger.messages.create(**asked)
    events = list(messenger.messages.create(stream=True, **asked))
    assert answer.ninfer["constraint"]["kind"] in ("json_schema", "tools")
    (closing,) = [event for event in events if event.type == "message_delta"]
    assert closing.ninfer["constraint"]["complete"] == answer.ninfer["constraint"]["complete"]
    assert closing.delta.stop_reason == answer.stop_reason
    assert (
        _blocks(events)
        == [(block.type, block.input if block.type == "tool_use" else block.text) for block in answer.content]
        or answer.stop_reason == "max_tokens"
    )
    for block in answer.content:
        if block.type == "tool_use":
            check_call(block.name, block.input)
        elif answer.stop_reason == "end_turn" and "tools" not in fields:
            jsonschema.validate(json.loads(block.text), BOOK)
    if answer.stop_reason != "max_tokens" and fields.get("tool_choice", {}).get("type") in ("any", "tool"):
        assert answer.stop_reason == "tool_use"


def _blocks(events: list[Any]) -> list[tuple[str, Any]]:
    """The content blocks of a stream of events."""
    blocks: dict[int, list[Any]] = {}
    for event in events:
        if event.type == "content_block_start":
            blocks[event.index] = [event.content_block.type, ""]
        elif event.type == "content_block_delta":
            delta = event.delta
            blocks[event.index][1] += getattr(delta, "text", None) or getattr(delta, "partial_json", None) or ""
    return [(kind, json.loads(text) if kind == "tool_use" else text) for kind, text in blocks.values()]


@pytest.mark.contract("CON-1", "API-4")
def test_messages_prefill_is_continued_and_only_the_suffix_published(messenger: anthropic.Anthropic) -> None:
    begun = '{"city":"Rome","nights":'
    answer = messenger.messages.create(
        model="m", max_tokens=20, messages=[*ASKED, {"role": "assistant", "content": begun}],
        extra_body={**SILENT, "output_config": {"format": {"type": "json_schema", "schema": BOOK}}},
    )  # fmt: skip
    jsonschema.validate(json.loads(begun + answer.content[0].text), BOOK)
    assert answer.ninfer["constraint"]["complete"]


@pytest.mark.contract("ENG-6", "THK-8", "TOOL-2")
def test_an_unconstrained_turn_has_its_reasoning_in_its_field_and_its_stop_strings(server: Server) -> None:
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    body = {"model": "m", "messages": ASKED, "max_tokens": 12, "temperature": 0.0, **thinking}
    answer = server.post("/v1/chat/completions", body).json()
    assert "ninfer" not in answer
    text = server.post("/v1/chat/completions", {**body, **SILENT}).json()["choices"][0]["message"]["content"]
    stop = text[4:6]
    stopped = server.post("/v1/chat/completions", {**body, **SILENT, "stop": [stop]}).json()["choices"][0]
    assert stopped["message"]["content"] == text[: text.index(stop)]
    assert stopped["finish_reason"] == "stop"
