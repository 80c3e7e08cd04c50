"""Qwen's tokenizer, against the published file's digest, the ranks themselves and tiktoken."""

import hashlib
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from ninfer_vllm.embedded.qwen_tokenizer import MARKERS, SPECIAL, merges_of, read_ranks, spelling_table

# The tokenizer.json of Qwen3's releases (11 422 654 bytes).
PUBLISHED_SHA256 = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"
NUM_RANKS, FIRST_ADDED, LAST_ADDED = 151_643, 151_643, 151_668
# Qwen's published pattern, with its own single-digit rule.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QUESTION = {"role": "user", "content": "q"}

# Mixed text: words of several scripts, code, white space runs, emoji, and anything that UTF-8 can carry.
mixed_text = st.lists(
    st.one_of(
        st.sampled_from(
            ["hello", " World's", "東京都", "مرحبا", "  ", "\n\n", "\t", "🙂", "x_1 = [2.5];", "<", "e\u0301"]
        ),
        st.text(max_size=8),
    ),
    max_size=12,
).map("".join)


@pytest.fixture(scope="module")
def tokenizer(tiny_qwen3_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_qwen3_folder)


@pytest.fixture(scope="module")
def ranks(ranks_file: Path) -> dict[bytes, int]:
    return read_ranks(ranks_file)


@pytest.fixture(scope="module")
def reference(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    return tiktoken.Encoding("qwen", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def render(tokenizer: Any, *messages: dict[str, Any], **options: Any) -> str:
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, **options)
    assert isinstance(text, str)
    return text


def test_tokenizer_file_is_the_published_one(tiny_qwen3_folder: Path) -> None:
    assert hashlib.sha256((tiny_qwen3_folder / "tokenizer.json").read_bytes()).hexdigest() == PUBLISHED_SHA256


def test_token_bytes_are_those_of_the_ranks(tokenizer: Any, ranks: dict[bytes, int]) -> None:
    byte_of = {character: byte for byte, character in spelling_table().items()}
    spelled = tokenizer.convert_ids_to_tokens(list(range(NUM_RANKS)))
    found = {bytes(byte_of[character] for character in token): rank for rank, token in enumerate(spelled)}
    assert found == ranks


def test_spelling_table_is_one_to_one() -> None:
    table = spelling_table()
    assert sorted(table) == list(range(256))
    assert len(set(table.values())) == 256
    assert (table[0x20], table[0x0A], table[0xAD], table[0x41]) == ("Ġ", "Ċ", "Ń", "A")


def test_merges_follow_the_ranks() -> None:
    ranks = {b"a": 0, b"b": 1, b"c": 2, b"bc": 3, b"abc": 4, b"ab": 5}
    assert merges_of(ranks) == [(b"b", b"c"), (b"a", b"bc"), (b"a", b"b")]


def test_control_tokens_have_qwens_ids(tokenizer: Any) -> None:
    ids = tokenizer.convert_tokens_to_ids(list(SPECIAL + MARKERS))
    assert ids == list(range(FIRST_ADDED, LAST_ADDED + 1))
    known = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>")
    assert tokenizer.convert_tokens_to_ids(known) == [151_644, 151_645, 151_657, 151_658, 151_667, 151_668]
    assert len(tokenizer) == LAST_ADDED + 1


def test_only_the_first_fourteen_are_special(tokenizer: Any) -> None:
    ids = list(range(FIRST_ADDED, LAST_ADDED + 1))
    assert tokenizer.decode(ids, skip_special_tokens=True) == "".join(MARKERS)


@settings(max_examples=300, deadline=None)
@given(text=mixed_text)
def test_text_survives_up_to_normalisation(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


@settings(max_examples=300, deadline=None)
@given(text=mixed_text)
def test_ids_are_tiktokens(tokenizer: Any, reference: tiktoken.Encoding, text: str) -> None:
    assert tokenizer.encode(text) == reference.encode_ordinary(unicodedata.normalize("NFC", text))


@pytest.mark.contract("THK-2")
@pytest.mark.parametrize(
    ("options", "ending"),
    [({}, ""), ({"enable_thinking": True}, ""), ({"enable_thinking": False}, "<think>\n\n</think>\n\n")],
)
def test_thinking_is_left_to_the_model_unless_it_is_off(tokenizer: Any, options: dict[str, bool], ending: str) -> None:
    text = render(tokenizer, QUESTION, add_generation_prompt=True, **options)
    assert text == f"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n{ending}"


def test_calls_are_written_in_the_hermes_dialect(tokenizer: Any) -> None:
    calls = [
        {"function": {"name": "f", "arguments": {"a": "é", "b": [1, True]}}},
        {"function": {"name": "g", "arguments": '{"c": 2}'}},
    ]
    turn = {"role": "assistant", "content": "", "tool_calls": calls}
    assert render(tokenizer, QUESTION, turn, QUESTION).endswith(
        '<|im_start|>assistant\n<tool_call>\n{"name": "f", "arguments": {"a": "é", "b": [1, true]}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g", "arguments": {"c": 2}}\n</tool_call><|im_end|>\n<|im_start|>user\nq<|im_end|>\n'
    )


def test_tools_are_listed_after_the_system_message(tokenizer: Any) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    text = render(tokenizer, {"role": "system", "content": "S"}, QUESTION, tools=[tool])
    assert text.startswith("<|im_start|>system\nS\n\n# Tools\n")
    assert '<tools>\n{"type": "function", "function": {"name": "f"}}\n</tools>' in text


def test_reasoning_is_kept_only_in_the_running_turn(tokenizer: Any) -> None:
    turn = {"role": "assistant", "content": "c", "reasoning_content": "why"}
    assert render(tokenizer, QUESTION, turn).endswith("assistant\n<think>\nwhy\n</think>\n\nc<|im_end|>\n")
    assert "why" not in render(tokenizer, QUESTION, turn, QUESTION)


@pytest.mark.contract("CON-2")
def test_last_answer_stands_behind_a_closed_block_as_it_is(tokenizer: Any) -> None:
    turn = {"role": "assistant", "content": "\n c"}
    assert render(tokenizer, QUESTION, turn).endswith("assistant\n<think>\n\n</think>\n\n\n c<|im_end|>\n")
