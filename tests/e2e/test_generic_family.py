"""A chat model of no known family: the host's reasoning parser gates its content, and tools are refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint, ToolConstraint
from ninfer_vllm.errors import ConflictingConstraint
from tests.support.engine import IN_PROCESS, SELECTED, Ask, Engine, Sample

pytestmark = pytest.mark.engine

TEMPLATE = (
    "{%- for m in messages -%}{{- m.role + ': ' + m.content + '\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- 'assistant: ' -}}{%- endif -%}"
    "{%- if done is defined -%}{{- '<think>done</think>' -}}{%- endif -%}"
)
"""Turns that no frontend knows; `done` makes the prompt end the reasoning itself."""

WORDS = ["yes", "no", " maybe"]
CHOICE = OutputConstraint.choice(WORDS)
MESSAGES = [{"role": "user", "content": "Is water wet?"}]
CLOSE = "</think>"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def engine(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    model = tmp_path_factory.mktemp("unknown-family")
    for file in tiny.iterdir():
        if file.name != "chat_template.jinja":
            (model / file.name).symlink_to(file)
    (model / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    with Engine(model, IN_PROCESS, reasoning_parser="deepseek_r1", **SELECTED) as running:
        yield running


def asks(bias: dict[int, float], constraint: Any = CHOICE) -> list[Ask]:
    settings = {"temperature": 1.0, "max_tokens": 40, "logit_bias": bias}
    return [Ask(MESSAGES, constraint, {**settings, "seed": seed}) for seed in range(8)]


def chat(engine: Engine, bias: dict[int, float], **template: Any) -> list[Sample]:
    return [answer.only for answer in engine.chat(asks(bias), chat_template_kwargs=template)]


def close_id(llm: Any) -> int:
    """Runs beside the engine: the token that ends the reasoning."""
    found: int = llm.get_tokenizer().get_added_vocab()[CLOSE]
    return found


def decoded(llm: Any, tokens: list[int]) -> str:
    """Runs beside the engine: the text of tokens, without those that end an answer."""
    text: str = llm.get_tokenizer().decode(tokens, skip_special_tokens=True)
    return text


@pytest.mark.contract("FAM-1", "THK-1")
def test_content_starts_behind_what_the_reasoning_parser_reads(engine: Engine) -> None:
    close = engine.call(close_id)
    samples = chat(engine, {close: 14.0})
    lengths = set()
    for sample in samples:
        assert close in sample.token_ids, "the bias ends every block in time"
        at = sample.token_ids.index(close)
        assert engine.call(decoded, sample.token_ids[at + 1 :]) in WORDS
        record = sample.constraint
        assert record is not None
        assert (record.complete, record.terminated, record.branch) == (True, True, "content")
        lengths.add(at)
    assert len(lengths) > 1, "nothing was ever thought"


@pytest.mark.contract("FAM-1")
def test_reasoning_that_never_ends_leaves_the_content_unbegun(engine: Engine) -> None:
    for sample in chat(engine, {engine.call(close_id): -100.0}):
        record = sample.constraint
        assert record is not None
        assert (sample.finish_reason, record.complete, record.branch) == ("length", False, "undecided")


@pytest.mark.contract("FAM-1", "GEN-7")
def test_content_starts_at_once_where_the_prompt_ended_the_reasoning(engine: Engine) -> None:
    for sample in chat(engine, {}, done=True):
        assert sample.text in WORDS


@pytest.mark.contract("FAM-1")
def test_tools_are_refused_with_the_families_that_have_them(engine: Engine) -> None:
    with pytest.raises(ConflictingConstraint, match="known families: qwen"):
        engine.chat(asks({}, ToolConstraint([TOOL], "required"))[:1])
