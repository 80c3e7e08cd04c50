"""Reasoning, content and calls from the tokens of one output: phases by control tokens, framing in no field."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from ninfer_vllm.constraint import Frame, ToolChoice
from ninfer_vllm.host.events import CallFinished, ContentDelta, Event, ReasoningDelta
from qwen_frontend.output import QwenOutputParser
from qwen_frontend.tools.contract import ToolContract
from qwen_frontend.tools.parser import CallParser
from tests.support.calls import FIRST_BYTE, IDS, contract_of, spelling_of, tool
from tests.support.cases import open_cases

THINK, END_THINK = 20_000, 20_001
MARKERS = {"<think>": THINK, "</think>": END_THINK, "<tool_call>": IDS[0], "</tool_call>": IDS[1]}
TOOLS = contract_of([tool("f", {})])
CALL = "<tool_call>\n<function=f>\n</function>\n</tool_call>"


def tokens_of(text: str, size: int) -> list[list[int]]:
    """The tokens of a text in groups: markers alone, other text as bytes."""
    found: list[int] = []
    while text:
        marker = next((marker for marker in MARKERS if text.startswith(marker)), None)
        if marker is None:
            found += [FIRST_BYTE + value for value in text[0].encode()]
        else:
            found.append(MARKERS[marker])
        text = text[len(marker or text[0]) :]
    return [found[at : at + size] for at in range(0, len(found), size)]


def outcome(frame: Frame, text: str, size: int, contract: ToolContract | None = TOOLS) -> tuple[str, str, int]:
    parser = QwenOutputParser(frame, (THINK, END_THINK), CallParser(contract, IDS, spelling_of), spelling_of)
    events: list[Event] = [event for group in tokens_of(text, size) for event in parser.feed(group)]
    return fields([*events, *parser.finish("stop")])


def fields(events: Sequence[Event]) -> tuple[str, str, int]:
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    content = "".join(event.text for event in events if isinstance(event, ContentDelta))
    return reasoning, content, sum(isinstance(event, CallFinished) for event in events)


@pytest.mark.contract("THK-4", "THK-5", "THK-8", "WEX-5")
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("frame", "text", "fields"),
    [
        ("content", " a", ("", " a", 0)),
        ("content", "\n\na", ("", "\n\na", 0)),
        ("thinking", "why\n</think>\n\n a ", ("why", " a ", 0)),
        ("thinking", "a\n\nb\n\n</think>\n\n\nc", ("a\n\nb\n", "\nc", 0)),
        ("thinking", "</think>\n\n", ("", "", 0)),
        ("thinking", "cut\n", ("cut\n", "", 0)),
        ("thinking", f"x\n</think>\n\n{CALL}", ("x", "", 1)),
        ("thinking", f"x\n</think>\n\nhi {CALL}\n{CALL}", ("x", "hi ", 2)),
        ("opening", "<think>\nwhy\n</think>\n\nso", ("why", "so", 0)),
        ("opening", "<think>\n\n</think>\n\nso", ("", "so", 0)),
        ("opening", "no thinking", ("", "no thinking", 0)),
        ("thinking", "é😀\n</think>\n\né", ("é😀", "é", 0)),
    ],
)
def test_fields_are_the_same_however_the_tokens_come(
    frame: Frame, text: str, fields: tuple[str, str, int], size: int
) -> None:
    assert outcome(frame, text, size) == fields


@pytest.mark.contract("THK-4")
@pytest.mark.parametrize("size", [1, 1000])
def test_free_output_may_leave_out_line_breaks_of_the_frame(size: int) -> None:
    assert outcome("thinking", "why</think>so", size, None) == ("why", "so", 0)
    assert outcome("opening", "<think>why</think>\nso", size, None) == ("why", "so", 0)


@pytest.mark.contract("TOK-4")
def test_spelled_close_is_reasoning() -> None:
    parser = QwenOutputParser("thinking", (THINK, END_THINK), CallParser(None, None, spelling_of), spelling_of)
    spelled = [FIRST_BYTE + value for value in b"</think>\n\nx"]
    assert fields([*parser.feed(spelled), *parser.finish("length")]) == ("</think>\n\nx", "", 0)


@pytest.mark.contract("THK-8", "TOOL-10")
@pytest.mark.parametrize("case", [case for case in open_cases("thinking") if case.id in ("th-011", "absent")])
@pytest.mark.parametrize("size", [1, 1000])
def test_reasoning_and_the_call_behind_it_are_both_returned(case: dict[str, Any], size: int) -> None:
    tools = copy.deepcopy(case["constraint"]["tools"])
    tools[0]["function"]["parameters"]["additionalProperties"] = False
    (wanted,) = case["constraint"]["parse"]
    for choice in ("auto", ToolChoice(enforcement="automatic")):
        contract = contract_of(tools, choice)
        calls = CallParser(contract, IDS, spelling_of)
        parser = QwenOutputParser("thinking", (THINK, END_THINK), calls, spelling_of)
        events = [event for group in tokens_of(wanted["raw"], size) for event in parser.feed(group)]
        events += parser.finish("stop")
        assert fields(events) == (wanted["reasoning"], "", len(wanted["calls"]))
        found = [(event.name, json.loads(event.arguments)) for event in events if isinstance(event, CallFinished)]
        assert found == [(call["name"], call["arguments"]) for call in wanted["calls"]]
