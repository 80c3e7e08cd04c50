"""Free outputs of a chat, read from the host's text: the same fields whole and in pieces, content where no call is."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoTokenizer

from ninfer_vllm.constraint import ToolChoice, ToolConstraint
from ninfer_vllm.embedded import tokenizer as embedded_tokenizer
from ninfer_vllm.host.events import CallFinished, ContentDelta, Event, ReasoningDelta
from ninfer_vllm.host.frontend import frontend_for
from ninfer_vllm.host.output_reader import OutputReader
from ninfer_vllm.host.prepared import Prepared
from tests.support.calls import tool

TOOLS = [tool("f", {"a": {"type": "string"}}, strict=False)]
TURN = [{"role": "user", "content": "say <tool_call>"}]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "<think>\\n"}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
READ = [("f", '{"a": "<think>\\n"}')]

Fields = tuple[str, str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(embedded_tokenizer("embedded-qwen"))


def reader(tokenizer: Any, *, declares: bool) -> OutputReader:
    """The reader of a turn whose enforcement is automatic."""
    preparer: Any = None
    prepared = Prepared(preparer)
    if declares:
        prepared.tools = ToolConstraint(TOOLS, ToolChoice(enforcement="automatic"))
    prompt = tokenizer.apply_chat_template(TURN, add_generation_prompt=True, tokenize=False)
    ids = tokenizer.encode(prompt, add_special_tokens=False)
    return OutputReader.of(prepared, frontend_for(tokenizer), tokenizer, ids)


def fields(events: list[Event]) -> Fields:
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    content = "".join(event.text for event in events if isinstance(event, ContentDelta))
    return reasoning, content, [(event.name, event.arguments) for event in events if isinstance(event, CallFinished)]


@pytest.mark.contract("TOOL-2", "TOOL-10", "TOOL-11", "THK-8")
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "cut"])
@pytest.mark.parametrize(
    ("text", "declares", "expected"),
    [
        ("plain <tool_cal", True, ("", "plain <tool_cal", [])),
        (f"hi {CALL}", True, ("", "hi ", READ)),
        (f"{CALL}\n{CALL}\n", True, ("", "", READ * 2)),
        (f"{CALL} and more", True, ("", " and more", READ)),
        (f"<think>\nwhy <tool_call>\n</think>\n\n{CALL}", True, ("why <tool_call>", "", READ)),
        (f"<think>\nwhy\n</think>\n\n{BROKEN}", True, ("why", BROKEN, [])),
        ("<tool_call><tool_call>{", True, None),
        (f"{BROKEN} {CALL}", True, ("", f"{BROKEN} ", READ)),
        (f"<think>\nwhy\n</think>\n\n{CALL}", False, ("why", CALL, [])),
        ("<think>\nnever closed", True, ("never closed", "", [])),
    ],
)
def test_fields_are_the_same_whole_and_in_pieces(
    tokenizer: Any, text: str, declares: bool, expected: Fields | None, ended: bool
) -> None:
    end = [tokenizer.eos_token_id] if ended else []
    whole = fields(reader(tokenizer, declares=declares).read(text, end, last=True))
    for size in (1, 2, 5):
        running = reader(tokenizer, declares=declares)
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        events = [event for part in parts for event in running.read(part, [], last=False)]
        assert fields([*events, *running.read("", end, last=True)]) == whole
    if expected is not None:
        assert whole == expected
    else:
        # Only the model's own end makes text of a call that has begun; cut, it is nothing yet.
        assert whole == ("", text if ended else "<tool_call>", [])
