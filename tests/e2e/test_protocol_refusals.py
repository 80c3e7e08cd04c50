"""Bad tools, formats and continuations on three protocols: located 400s, nothing queued; faults shown elsewhere."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest

from ninfer_vllm.embedded import build
from tests.support import templates
from tests.support.cases import open_cases
from tests.support.servers import ANSWER_SECONDS, Server, serving
from tests.support.tools import BOOK, chat_tools

pytestmark = [pytest.mark.engine, pytest.mark.server]

ASKED = [{"role": "user", "content": "hi"}]
SILENT = {"enable_thinking": False}
NGRAM = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4, "prompt_lookup_min": 1}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A model that is served with another template than its own: XML calls, thinking opened by the prompt."""
    template = tmp_path_factory.mktemp("template") / "opened.jinja"
    template.write_text(templates.QWEN35, encoding="utf-8")
    words = ("--speculative-config", NGRAM, "--chat-template", str(template))
    with serving(build("tiny-qwen3"), *words) as running:
        yield running


Function = dict[str, Any]
BAD_TOOLS: dict[str, tuple[list[Function], Any, str, str]] = {
    "duplicate names": (
        [{"name": "f", "parameters": {"type": "object"}}, {"name": "f", "parameters": {"type": "object"}}],
        "auto", "invalid_tools", "tools/1/function/name",
    ),
    "bad schema": (
        [{"name": "f", "strict": True, "parameters": {"type": "object", "properties": {"a": {"type": "nope"}},
          "additionalProperties": False}}],
        "auto", "invalid_schema", "tools/0/function/parameters/properties/a/type",
    ),
    "unrepresentable const": (
        [{"name": "f", "strict": True, "parameters": {"type": "object", "required": ["a"],
          "properties": {"a": {"const": "x\n</parameter>"}}, "additionalProperties": False}}],
        "auto", "unrepresentable_tool_value", "tools/0/function/parameters/properties/a/const",
    ),
    "unknown named tool": (
        [{"name": "f", "parameters": {"type": "object"}}], "g", "invalid_tools", "tool_choice",
    ),
    "strict with an open object": (
        [{"name": "f", "strict": True, "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}],
        "auto", "unsupported_schema", "tools/0/function/parameters",
    ),
    "root that is no object": (
        [{"name": "f", "strict": True, "parameters": {"type": "array"}}],
        "auto", "unsupported_schema", "tools/0/function/parameters/type",
    ),
}  # fmt: skip


def _chat(functions: list[Function], choice: Any) -> tuple[str, dict[str, Any]]:
    named = {"type": "function", "function": {"name": choice}}
    tools = [{"type": "function", "function": function} for function in functions]
    return "/v1/chat/completions", {
        "messages": ASKED, "max_tokens": 4, "tools": tools, "tool_choice": choice if choice == "auto" else named,
    }  # fmt: skip


def _responses(functions: list[Function], choice: Any) -> tuple[str, dict[str, Any]]:
    named = {"type": "function", "name": choice}
    tools = [{"type": "function", "strict": False, **function} for function in functions]
    return "/v1/responses", {
        "input": "hi", "max_output_tokens": 4, "tools": tools, "tool_choice": choice if choice == "auto" else named,
    }  # fmt: skip


def _messages(functions: list[Function], choice: Any) -> tuple[str, dict[str, Any]]:
    tools = [
        {
            **{name: value for name, value in function.items() if name != "parameters"},
            "input_schema": function["parameters"],
        }
        for function in functions
    ]
    named = {"type": "auto"} if choice == "auto" else {"type": "tool", "name": choice}
    return "/v1/messages", {"messages": ASKED, "max_tokens": 4, "tools": tools, "tool_choice": named}


PROTOCOLS = {"chat": _chat, "responses": _responses, "messages": _messages}


def in_words_of(protocol: str, param: str) -> str:
    """A place of the Chat protocol as another one names it."""
    if protocol == "responses":
        return param.replace("/function/", "/")
    if protocol == "messages":
        return param.replace("/function/parameters", "/input_schema").replace("/function/", "/")
    return param


def queued(server: Server) -> float:
    """How many prompt tokens the engine has been given so far."""
    text = httpx.get(f"{server.url}/metrics", timeout=ANSWER_SECONDS).text
    return sum(float(value) for value in re.findall(r"^vllm:prompt_tokens_total\{[^}]*\} (\S+)$", text, re.MULTILINE))


@pytest.mark.contract("TOOL-5", "TOOL-9", "TOOL-14", "JSD-8", "ERR-2", "REQ-4")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", BAD_TOOLS)
def test_a_bad_tool_list_is_a_located_400_and_nothing_is_queued(
    server: Server, name: str, protocol: str, stream: bool
) -> None:
    functions, choice, code, param = BAD_TOOLS[name]
    before = queued(server)
    path, body = PROTOCOLS[protocol](functions, choice)
    response = server.post(path, {"model": "m", "stream": stream, **body})
    assert response.status_code == 400, response.text
    assert response.headers["content-type"].startswith("application/json")
    answer = response.json()
    assert (answer.get("type") == "error") == (protocol == "messages")
    error = answer["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert error["param"] == in_words_of(protocol, param)
    assert error["message"]
    assert queued(server) == before


@pytest.mark.contract("JSD-8", "ERR-2", "REQ-7", "CON-4", "TOOL-5", "THK-7")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "code", "param"),
    [
        (
            "/v1/responses",
            {"input": "x", "text": {"format": {"type": "json_schema", "name": "x",
                                               "schema": {"properties": {"a": {"type": 3}}}}}},
            "invalid_schema", "text/format/schema/properties/a/type",
        ),
        (
            "/v1/responses",
            {"input": "x", "structured_outputs": {"choice": ["a"]}, "text": {"format": {"type": "json_object"}}},
            "conflicting_constraint", "structured_outputs",
        ),
        (
            "/v1/responses", {"input": "x", "structured_outputs": {"choice": ["a"]}, "stop": ["x"]},
            "conflicting_constraint", "stop",
        ),
        (
            "/v1/messages",
            {"messages": ASKED, "max_tokens": 4,
             "output_config": {"format": {"type": "json_schema", "schema": {"type": "nope"}}}},
            "invalid_schema", "output_config/format/schema/type",
        ),
        (
            "/v1/messages",
            {"messages": ASKED, "max_tokens": 4, "stop_sequences": ["x"],
             "output_config": {"format": {"type": "json_schema", "schema": BOOK}}},
            "conflicting_constraint", "stop_sequences",
        ),
        (
            "/v1/messages",
            {"messages": [*ASKED, {"role": "assistant", "content": '{"town'}], "max_tokens": 4,
             "output_config": {"format": {"type": "json_schema", "schema": BOOK}}},
            "invalid_continuation", "messages",
        ),
        (
            "/v1/chat/completions",
            {"messages": [*ASKED, {"role": "assistant", "content": '{"city":"Paris'}], "max_tokens": 4,
             "continue_final_message": True, "add_generation_prompt": False,
             "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": BOOK}}},
            "invalid_continuation", "messages",
        ),
        (
            "/v1/chat/completions",
            {"messages": ASKED, "tools": chat_tools(), "structured_outputs": {"regex": "a"}},
            "conflicting_constraint", "tools",
        ),
        (
            "/v1/messages", {"messages": ASKED, "max_tokens": 4, "tool_choice": {"type": "any"}},
            "invalid_tools", "tool_choice",
        ),
        (
            "/v1/messages", {"messages": ASKED, "max_tokens": 4, "tool_choice": {"type": "tool", "name": "f"}},
            "invalid_tools", "tool_choice",
        ),
        (
            "/v1/responses",
            {"input": "x", "tools": [{"type": "web_search_preview"}], "tool_choice": "required"},
            "invalid_tools", "tool_choice",
        ),
        (
            "/v1/responses",
            {"input": "x", "text": {"format": {"type": "json_object"}}, "thinking_token_budget": "few"},
            "conflicting_constraint", "thinking_token_budget",
        ),
        (
            "/v1/chat/completions",
            {"messages": ASKED, "tools": chat_tools(), "stop": ["x"]}, "conflicting_constraint", "stop",
        ),
    ],
)  # fmt: skip
def test_a_fault_is_located_in_the_words_of_its_protocol(
    server: Server, path: str, body: dict[str, Any], code: str, param: str, stream: bool
) -> None:
    before = queued(server)
    response = server.post(path, {"model": "m", "stream": stream, **body})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert queued(server) == before


def chat(server: Server, **fields: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": ASKED, "max_tokens": 60, "temperature": 1.0, "chat_template_kwargs": SILENT}
    response = server.post("/v1/chat/completions", {**body, **fields})
    assert response.status_code == 200, response.text
    choice: dict[str, Any] = response.json()["choices"][0]
    return choice


def events(server: Server, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    response = server.post(path, {"model": "m", "stream": True, **body})
    assert response.status_code == 200, response.text
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


@pytest.mark.contract("TOOL-10", "SPC-7", "GEN-3")
def test_streamed_forced_calls_with_drafts_join_to_valid_json_or_do_not_begin(server: Server) -> None:
    for seed in range(4):
        body = {
            "messages": ASKED, "tools": chat_tools()[:1], "tool_choice": "required", "seed": seed, "temperature": 1.0,
            "max_tokens": 120, "chat_template_kwargs": SILENT, "parallel_tool_calls": False,
        }  # fmt: skip
        chunks = [event["choices"][0] for event in events(server, "/v1/chat/completions", body)]
        text = "".join(
            call["function"].get("arguments") or ""
            for chunk in chunks
            for call in chunk["delta"].get("tool_calls") or []
        )
        assert "".join(chunk["delta"].get("content") or "" for chunk in chunks) == ""
        if chunks[-1]["finish_reason"] == "tool_calls":
            jsonschema.validate(json.loads(text), BOOK)
        else:
            assert (chunks[-1]["finish_reason"], text) == ("length", "")


CALLS = ("ht-016", "ht-017", "ht-018", "ht-019", "ht-024", "ht-035")
"""Reported requests that declare tools."""


@pytest.mark.contract("TOOL-9", "TOOL-10", "JSD-8", "GEN-3")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", [case for case in open_cases("http") if case.id in (*CALLS, "absent")])
def test_reported_calls_are_refused_cut_or_published_as_they_should_be(
    server: Server, case: dict[str, Any], stream: bool
) -> None:
    request, expected = copy.deepcopy(case["constraint"]["request"]), case["constraint"]["expect"]
    (function,) = (tool["function"] for tool in request["tools"])
    function["parameters"]["additionalProperties"] = False
    request = {"max_tokens": 60, **request, "stream": stream}
    if expected["status"] == 400:
        response = server.post("/v1/chat/completions", {"model": "m", "messages": ASKED, **request})
        assert response.status_code == 400, response.text
        place = re.sub(r"\[([0-9]+)\]", r"/\1", expected["where"]).replace(".", "/")
        assert response.json()["error"]["param"] == place
        return
    body = {"messages": ASKED, "temperature": 1.0, "seed": 1, "chat_template_kwargs": SILENT, **request}
    content, calls, reason = published(server, body)
    assert content == ""
    for name, arguments in calls:
        assert name == function["name"]
        jsonschema.validate(json.loads(arguments), function["parameters"])
    if "length" in expected.get("finish_reason", ""):
        assert (reason, calls) == ("length", [])
    elif isinstance(request["tool_choice"], dict):
        assert (reason, len(calls)) in (("stop", 1), ("length", 0), ("length", 1))
    else:
        assert reason == "length" or (reason == "tool_calls" and calls)


def published(server: Server, body: dict[str, Any]) -> tuple[str, list[tuple[str, str]], str]:
    """Content, calls and finish reason of one turn, streamed where it asks for that."""
    if not body["stream"]:
        message = chat(server, **body)
        calls = [call["function"] for call in message["message"].get("tool_calls") or []]
        content = message["message"]["content"] or ""
        return content, [(call["name"], call["arguments"]) for call in calls], message["finish_reason"]
    content, reason, joined = "", "", dict[int, list[str]]()
    for event in events(server, "/v1/chat/completions", body):
        (choice,) = event["choices"]
        content += choice["delta"].get("content") or ""
        reason = choice["finish_reason"] or reason
        for call in choice["delta"].get("tool_calls") or []:
            parts = joined.setdefault(call["index"], ["", ""])
            parts[0] += call["function"].get("name") or ""
            parts[1] += call["function"].get("arguments") or ""
    return content, [(name, arguments) for name, arguments in joined.values()], reason


@pytest.mark.contract("THK-2", "THK-3", "THK-7")
def test_thinking_can_not_end_the_turn_and_a_budget_ends_it_once(server: Server) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": BOOK}}
    for seed in range(3):
        choice = chat(server, response_format=form, seed=seed, thinking_token_budget=8, chat_template_kwargs={})
        assert choice["finish_reason"] == "stop"
        jsonschema.validate(json.loads(choice["message"]["content"]), BOOK)
        assert choice["message"]["reasoning"] is not None
        assert choice["constraint"]["reasoning_tokens"] <= 12


@pytest.mark.contract("TOK-4", "CHO-1", "THK-8")
@pytest.mark.parametrize("spelling", ["<think>", "</think>", "<tool_call>", "<|im_end|>", ""])
def test_an_answer_that_is_spelled_like_a_marker_is_content(server: Server, spelling: str) -> None:
    choice = chat(server, structured_outputs={"choice": [spelling]})
    assert (choice["message"]["content"], choice["finish_reason"]) == (spelling, "stop")
    assert choice["message"].get("reasoning") is None


@pytest.mark.contract("REQ-6")
def test_counting_and_rendering_compile_nothing(server: Server) -> None:
    tools = [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "nope"}}}]
    counted = server.post("/tokenize", {"model": "m", "messages": ASKED, "tools": tools})
    assert counted.status_code == 200, counted.text
    counted = server.post(
        "/v1/messages/count_tokens",
        {"model": "m", "messages": ASKED, "tools": [{"name": "f", "strict": True, "input_schema": {"type": "nope"}}]},
    )
    assert counted.status_code == 200, counted.text
    assert server.healthy()
