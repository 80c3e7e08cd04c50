"""Start phases read from real templates and rendered prompts."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

from ninfer_vllm.embedded import tokenizer as embedded_tokenizer
from ninfer_vllm.host.frontend import GenericFrontend, frontend_for
from qwen_frontend.thinking import QwenFrontend

TURN = [{"role": "user", "content": "say <think> and </think>"}]


@pytest.fixture(scope="module", params=["embedded", "embedded-qwen"])
def case(request):
    return request.param, AutoTokenizer.from_pretrained(embedded_tokenizer(request.param))


def frame(tokenizer, **kwargs) -> str:
    prompt = tokenizer.apply_chat_template(TURN, add_generation_prompt=True, tokenize=False, **kwargs)
    return frontend_for(tokenizer).start_frame(tokenizer.encode(prompt, add_special_tokens=False))


@pytest.mark.contract("THK-2", "FAM-1")
def test_frontend_is_found_through_the_entry_points(case) -> None:
    assert isinstance(frontend_for(case[1]), QwenFrontend)


@pytest.mark.contract("THK-2", "GEN-7")
def test_open_and_closed_blocks_are_read_from_the_prompt_not_from_the_users_text(case) -> None:
    name, tokenizer = case
    assert frame(tokenizer, enable_thinking=False) == "content"
    if name == "embedded":
        assert frame(tokenizer, enable_thinking=True) == "thinking"
        assert frame(tokenizer) == "content"
    else:
        assert frame(tokenizer, enable_thinking=True) == "opening"
        assert frame(tokenizer) == "opening", "the hybrid model opens its thinking itself"


@pytest.mark.contract("FAM-1")
def test_other_families_start_with_content() -> None:
    class Plain:
        chat_template = "{{ messages }}"

        def get_added_vocab(self) -> dict[str, int]:
            return {"<s>": 1}

    found = frontend_for(Plain())
    assert isinstance(found, GenericFrontend)
    assert found.start_frame([1, 2]) == "content"
    assert found.thinking_ids is None
