"""Dialect and thinking of each model generation, found by rendering its chat template."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer
from vllm.tokenizers.hf import maybe_make_thread_pool

from ninfer_vllm.embedded import tokenizer as embedded_tokenizer
from ninfer_vllm.errors import InvalidOption, UnsupportedTemplate
from ninfer_vllm.host.frontend import GenericFrontend, frontend_for, state_template
from ninfer_vllm.host.options import PluginOptions
from qwen_frontend.templates import facts_of
from qwen_frontend.thinking import QwenFrontend
from tests.support import templates

TURN = [{"role": "user", "content": "say <think> and </think> and <tool_call>"}]


@pytest.fixture(scope="module")
def vocabulary() -> Any:
    return AutoTokenizer.from_pretrained(embedded_tokenizer("embedded-qwen"))


@pytest.fixture
def tokenizer(vocabulary: Any) -> Iterator[Any]:
    """The tokenizer, whose template each test may replace."""
    own = vocabulary.chat_template
    yield vocabulary
    vocabulary.chat_template = own


def start(tokenizer: Any, **options: Any) -> str:
    prompt = tokenizer.apply_chat_template(TURN, add_generation_prompt=True, tokenize=False, **options)
    return frontend_for(tokenizer).start_frame(tokenizer.encode(prompt, add_special_tokens=False))


@pytest.mark.contract("THK-2", "FAM-1", "TOOL-13")
@pytest.mark.parametrize(
    ("template", "dialect", "default", "silent"),
    [
        (templates.QWEN25, "hermes", "content", "content"),
        (templates.QWEN3, "hermes", "opening", "content"),
        (templates.THINKING_2507, "hermes", "thinking", "thinking"),
        (templates.CODER, "xml", "content", "content"),
        (templates.QWEN35, "xml", "thinking", "content"),
    ],
    ids=["Qwen2.5", "Qwen3", "Thinking-2507", "Coder", "Qwen3.5"],
)
def test_dialect_and_start_are_found(tokenizer: Any, template: str, dialect: str, default: str, silent: str) -> None:
    tokenizer.chat_template = template
    family = frontend_for(tokenizer)
    assert isinstance(family, QwenFrontend)
    assert family.dialect == dialect
    assert (start(tokenizer), start(tokenizer, enable_thinking=False)) == (default, silent)
    assert (family.thinking_ids is not None) == (default != "content")


@pytest.mark.contract("FAM-1", "GEN-6")
def test_a_call_that_is_written_otherwise_is_shown_in_the_refusal(tokenizer: Any) -> None:
    tokenizer.chat_template = templates.QWEN3.replace('{"name": "', '{"tool": "')
    facts = facts_of(tokenizer)
    assert facts.dialect is None
    assert '{"tool": "probe_name"' in facts.tool_finding


@pytest.mark.contract("THK-2", "GEN-6")
@pytest.mark.parametrize(
    ("known", "other"), [("<think>\\n' -}}", "<think>' -}}"), ("</think>\\n\\n", "</think>")], ids=["open", "closed"]
)
def test_a_thinking_block_that_is_written_otherwise_is_refused_with_what_was_found(
    tokenizer: Any, known: str, other: str
) -> None:
    tokenizer.chat_template = templates.QWEN35.replace(known, other)
    with pytest.raises(UnsupportedTemplate) as refusal:
        start(tokenizer)
    assert "think>" in refusal.value.found


@pytest.mark.contract("FAM-1")
def test_a_template_without_turns_of_this_family_is_another_familys(tokenizer: Any) -> None:
    tokenizer.chat_template = "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}"
    assert isinstance(frontend_for(tokenizer), GenericFrontend)


@pytest.mark.contract("THK-2", "TOOL-13")
@pytest.mark.parametrize("pooled", [True, False], ids=["pool", "one"])
@pytest.mark.parametrize("as_file", [True, False], ids=["file", "text"])
def test_a_template_that_is_given_stands_for_the_models_own(
    vocabulary: Any, as_file: bool, pooled: bool, tmp_path: Path
) -> None:
    tokenizer = copy.deepcopy(vocabulary)
    if pooled:
        maybe_make_thread_pool(tokenizer)
    own = frontend_for(tokenizer)
    state_template(tokenizer, None)
    assert frontend_for(tokenizer) == own
    file = tmp_path / "given.jinja"
    file.write_text(templates.QWEN35, encoding="utf-8")
    state_template(tokenizer, str(file) if as_file else templates.QWEN35)
    assert (own.dialect, frontend_for(tokenizer).dialect) == ("hermes", "xml")
    rendered = {"chat_template": templates.QWEN35}
    starts = start(tokenizer, **rendered), start(tokenizer, enable_thinking=False, **rendered)
    assert starts == ("thinking", "content")


def test_a_template_that_is_no_text_is_no_option() -> None:
    with pytest.raises(InvalidOption, match="chat_template"):
        PluginOptions.of({"chat_template": 3})
