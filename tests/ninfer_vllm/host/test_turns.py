"""Existing content: found exactly in the rendering, refused where it was altered, cut into text and control tokens."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import AutoTokenizer

from ninfer_vllm.constraint import Constraint, OutputConstraint, ToolConstraint
from ninfer_vllm.embedded import tokenizer as embedded_tokenizer
from ninfer_vllm.errors import ConflictingConstraint
from ninfer_vllm.host.continuation import existing_of
from ninfer_vllm.host.frontend import frontend_for
from ninfer_vllm.host.turns import SENTINEL, Continued, continued_in, final_content, with_sentinel
from tests.support import templates

BODY = OutputConstraint.json_object()
TOOLS = ToolConstraint([{"type": "function", "function": {"name": "f"}}])
BOTH = ToolConstraint([{"type": "function", "function": {"name": "f"}}], body=BODY)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(embedded_tokenizer("embedded-qwen"))


def rendered(tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> str:
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, continue_final_message=True, **options)
    return text


def conversation(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": '{"a": 1'}, {"role": "assistant", "content": content}]


def found(tokenizer: Any, content: str) -> Continued:
    messages = conversation(content)
    return continued_in(content, rendered(tokenizer, messages), rendered(tokenizer, with_sentinel(messages)))


@pytest.mark.contract("CON-2")
@pytest.mark.parametrize("content", ['{"a": 1', '{"name":', " leading", "海", 'x<tool_call>\n{"name"'])
def test_content_is_found_as_it_is_and_the_rest_is_the_templates(tokenizer: Any, content: str) -> None:
    continued = found(tokenizer, content)
    assert continued.content == content
    assert continued.head.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


@pytest.mark.contract("CON-2")
def test_content_that_the_template_alters_is_refused(tokenizer: Any) -> None:
    messages = conversation("  kept?")
    trimming = templates.QWEN25.replace("m.content or ''", "(m.content or '') | trim")
    texts = [rendered(tokenizer, said, chat_template=trimming) for said in (messages, with_sentinel(messages))]
    with pytest.raises(ConflictingConstraint) as refusal:
        continued_in("  kept?", *texts)
    assert refusal.value.place == {"field": "continue_final_message"}


@pytest.mark.contract("CON-2")
@pytest.mark.parametrize("probed", ["other head" + SENTINEL, "head" + SENTINEL + "tail", None])
def test_a_wrapping_that_depends_on_the_content_is_refused(probed: str | None) -> None:
    with pytest.raises(ConflictingConstraint):
        continued_in("x", "headx", probed)


@pytest.mark.contract("CON-1", "CON-4")
@pytest.mark.parametrize(
    "final",
    [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "x", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ],
    ids=["user", "empty", "none", "calls", "two texts"],
)
def test_a_final_message_that_is_no_plain_text_of_the_assistant_is_refused(final: dict[str, Any]) -> None:
    with pytest.raises(ConflictingConstraint):
        final_content([final])


@pytest.mark.contract("CON-1")
def test_a_single_text_part_is_its_text() -> None:
    assert final_content([{"role": "assistant", "content": [{"type": "text", "text": "a"}]}]) == "a"


CLOSED = "<|im_start|>assistant\n<think>\n\n</think>\n\n"


def existing(tokenizer: Any, constraint: Constraint, content: str, head: str = CLOSED) -> Any:
    return existing_of(
        constraint, Continued(content, head), frontend_for(tokenizer), tokenizer.encode, tokenizer.convert_ids_to_tokens
    )


@pytest.mark.contract("CON-1", "CON-4", "TOOL-12", "TOK-4")
def test_the_opening_marker_begins_a_call_only_where_a_call_may_be(tokenizer: Any) -> None:
    opening = tokenizer.convert_tokens_to_ids("<tool_call>")
    assert existing(tokenizer, TOOLS, 'ok <tool_call>\n{"na') == (b"ok ", opening, b'\n{"na')
    assert existing(tokenizer, TOOLS, "<tool_call>") == (opening,)
    assert existing(tokenizer, BODY, '{"a":"<tool_call>') == (b'{"a":"<tool_call>',)
    assert existing(tokenizer, BOTH, '{"a":"<tool_call>') == (b'{"a":"<tool_call>',)


@pytest.mark.contract("CON-4")
@pytest.mark.parametrize("content", ["<tool_call>x</tool_call>", "<tool_call>a<tool_call>b"])
def test_finished_calls_are_refused(tokenizer: Any, content: str) -> None:
    with pytest.raises(ConflictingConstraint):
        existing(tokenizer, TOOLS, content)


@pytest.mark.contract("CON-1")
def test_thinking_must_be_closed_before_the_content(tokenizer: Any) -> None:
    with pytest.raises(ConflictingConstraint):
        existing(tokenizer, BODY, "{", "<|im_start|>assistant\n<think>\n")
    with pytest.raises(ConflictingConstraint):
        existing(tokenizer, BODY, "<think>\nhm\n</think>\n\n{")
    assert existing(tokenizer, BODY, "{", "<|im_start|>assistant\n") == (b"{",)
