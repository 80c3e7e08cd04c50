"""Responses and Messages: faults of running rows as events, records in their members, places in their words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import (
    ChatCompletionNamedToolChoiceParam,
    ChatCompletionRequest,
)
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

from ninfer_vllm.errors import ConflictingConstraint, ConstraintDeadEnd, InvalidSchema, InvalidTools
from ninfer_vllm.host.http_errors import LocatedRefusal, RefusedStream, openai_body, stream_event
from ninfer_vllm.host.http_messages import answer_of, convert, refusal_of
from ninfer_vllm.host.http_responses import failing_as_event
from ninfer_vllm.host.options import PluginOptions
from ninfer_vllm.host.requested import (
    asks_for_tool_constraint,
    budget_of,
    origin_of,
    refuse_call_of_no_tool,
    tool_place,
    tools_of,
)  # fmt: skip
from tests.support.tools import BOOK, chat_tools, responses_tools

MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]


async def pieces(*items: Any) -> AsyncIterator[Any]:
    for item in items:
        if isinstance(item, Exception):
            raise item
        yield item


def gathered(events: AsyncIterator[Any]) -> list[Any]:
    async def run() -> list[Any]:
        return [event async for event in events]

    return asyncio.run(run())


@pytest.mark.contract("ERR-5", "ERR-4")
def test_a_failed_row_ends_a_responses_stream_with_an_error_event() -> None:
    *before, last = gathered(failing_as_event(pieces("created", "delta", ConstraintDeadEnd(3))))
    assert before == ["created", "delta"]
    assert (last.type, last.code, last.sequence_number) == ("error", "constraint_dead_end", 2)


@pytest.mark.contract("ERR-5", "OBS-2")
def test_a_messages_stream_carries_the_record_and_a_failed_row_in_its_own_events() -> None:
    async def converted(chat_events: AsyncIterator[str]) -> AsyncIterator[str]:
        async for event in chat_events:
            yield f"event: content\n{event}"
        yield 'event: message_delta\ndata: {"type": "message_delta"}\n\n'

    record = {"constraint": {"kind": "regex"}}
    ended = "data: " + json.dumps({"choices": [], "ninfer": record}) + "\n\n"
    *_, closing = gathered(convert(pieces("data: {}\n\n", ended), converted))
    assert json.loads(closing.partition("data: ")[2])["ninfer"] == record

    failed = f"data: {stream_event(ConstraintDeadEnd(3))}\n\n"
    *_, last = gathered(convert(pieces("data: {}\n\n", failed, "data: [DONE]\n\n"), converted))
    assert last.startswith("event: error\n")
    body = json.loads(last.partition("data: ")[2])
    assert (body["type"], body["error"]["code"]) == ("error", "constraint_dead_end")


@pytest.mark.contract("JSD-8", "ERR-2")
@pytest.mark.parametrize(
    ("param", "told"),
    [
        ("tools/2/function/parameters/properties/a", "tools/2/input_schema/properties/a"),
        ("tools/0/function/name", "tools/0/name"),
        ("response_format/json_schema/schema/type", "output_config/format/schema/type"),
        ("stop", "stop_sequences"),
        ("parallel_tool_calls", "tool_choice/disable_parallel_tool_use"),
        ("continue_final_message", "messages"),
    ],
)
def test_messages_names_a_place_as_its_client_wrote_it(param: str, told: str) -> None:
    refusal = refusal_of(LocatedRefusal(InvalidSchema("", "bad"), param, exact=True))
    assert refusal is not None
    answer = answer_of(refusal)
    assert answer is not None
    assert answer.status_code == 400
    body = json.loads(bytes(answer.body))
    assert (body["type"], body["error"]["type"], body["error"]["param"]) == ("error", "invalid_request_error", told)


@pytest.mark.contract("ERR-2")
def test_faults_that_are_not_ours_stay_the_hosts() -> None:
    assert refusal_of(ValueError("theirs")) is None
    refused = refusal_of(RefusedStream(openai_body(ConstraintDeadEnd(0))))
    assert refused is not None
    assert refused.status == 422


def chat(**fields: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest(model="m", messages=MESSAGES, **fields)


def chat_named(name: str) -> ChatCompletionNamedToolChoiceParam:
    return ChatCompletionNamedToolChoiceParam.model_validate({"type": "function", "function": {"name": name}})


def respond(**fields: Any) -> ResponsesRequest:
    return ResponsesRequest(model="m", input="hi", **fields)


@pytest.mark.contract("TOOL-14", "REQ-4", "TOOL-1")
@pytest.mark.parametrize(
    ("request_", "mode", "names", "parallel"),
    [
        (chat(tools=chat_tools()), "auto", None, True),
        (chat(tools=chat_tools(), tool_choice="required", parallel_tool_calls=False), "required", None, False),
        (
            chat(tools=chat_tools(), tool_choice={"type": "function", "function": {"name": "ping"}}),
            "required", ("ping",), False,
        ),
        (chat(tools=chat_tools(), tool_choice="none"), "none", None, True),
        (respond(tools=responses_tools()), "auto", None, True),
        (
            respond(tools=responses_tools(), tool_choice={"type": "function", "name": "book"}),
            "required", ("book",), False,
        ),
        (
            respond(
                tools=responses_tools(),
                tool_choice={
                    "type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "book"}],
                },
            ),
            "required", ("book",), True,
        ),
    ],
)  # fmt: skip
def test_every_choice_of_tools_means_a_policy(request_: Any, mode: str, names: Any, parallel: bool) -> None:
    tools = tools_of(request_, None, PluginOptions(tool_dialect="xml", tool_enforcement="automatic"))
    assert tools is not None
    policy = tools.policy
    assert (policy.mode, policy.allowed_names, policy.parallel, policy.enforcement) == (
        mode,
        names,
        parallel,
        "automatic",
    )
    assert tools.dialect == "xml"
    declared = json.loads(tools.declarations)
    assert [tool["function"]["name"] for tool in declared] == ["book", "ping"]
    assert declared[0]["function"]["parameters"] == BOOK
    assert list(declared[0]["function"]["parameters"]["properties"]) == ["city", "nights"], "the order is kept"


@pytest.mark.contract("TOOL-2")
@pytest.mark.parametrize(
    ("fields", "asks"),
    [
        ({"tools": chat_tools(strict=False)}, False),
        ({"tools": chat_tools(strict=False), "tool_choice": "none"}, False),
        ({"tools": chat_tools()}, True),
        ({"tools": chat_tools(strict=False), "tool_choice": "required"}, True),
        ({"tools": chat_tools(strict=False), "parallel_tool_calls": False}, True),
    ],
)
def test_what_a_request_itself_asks_of_its_calls(fields: dict[str, Any], asks: bool) -> None:
    request = chat(**fields)
    tools = tools_of(request, None, PluginOptions())
    assert tools is not None
    assert asks_for_tool_constraint(tools, request) is asks


@pytest.mark.contract("JSD-8")
def test_places_are_told_in_the_words_of_each_openai_protocol() -> None:
    form = {"type": "json_schema", "name": "x", "schema": {}}
    assert origin_of(respond(text={"format": form})) == "text/format/schema"
    assert origin_of(respond(text={"format": {"type": "json_object"}})) == "text/format"
    assert origin_of(respond(structured_outputs={"choice": ["a"]})) == "structured_outputs/choice"
    assert tool_place(chat(), "/0/function/parameters/x") == "tools/0/function/parameters/x"
    assert tool_place(respond(), "/0/function/parameters/x") == "tools/0/parameters/x"


@pytest.mark.contract("TOOL-5", "TOOL-14")
@pytest.mark.parametrize(
    ("request_", "is_refused"),
    [
        (respond(tools=[{"type": "web_search_preview"}], tool_choice="required"), True),
        (chat().model_copy(update={"tool_choice": "required"}), True),
        (chat().model_copy(update={"tool_choice": chat_named("f")}), True),
        (respond(tools=[{"type": "web_search_preview"}]), False),
        (respond(tools=responses_tools(), tool_choice="required"), False),
        (chat(), False),
        (chat(tool_choice="none"), False),
    ],
)
def test_a_call_that_no_declared_function_can_be_is_refused(request_: Any, is_refused: bool) -> None:
    if not is_refused:
        refuse_call_of_no_tool(request_)
        return
    with pytest.raises(InvalidTools) as refusal:
        refuse_call_of_no_tool(request_)
    assert refusal.value.pointer == ""


@pytest.mark.contract("THK-7")
def test_a_responses_turn_states_its_thinking_budget_beside_the_hosts_fields() -> None:
    assert [budget_of(respond(thinking_token_budget=value)) for value in (0, 7, -1, None)] == [0, 7, None, None]
    assert budget_of(respond()) is None
    assert budget_of(chat(thinking_token_budget=7)) is None, "the host's own class has read it"
    for wrong in (-2, True, "7", 1.5, []):
        with pytest.raises(ConflictingConstraint) as refusal:
            budget_of(respond(thinking_token_budget=wrong))
        assert refusal.value.place == {"field": "thinking_token_budget"}
