"""The dressed SmolLM2: real text, Qwen's markers, and a template for every thinking flag."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from ninfer_vllm.embedded.smollm2 import MARKERS, dressed_embedding

FIRST_MARKER = 49_152
QUESTION = {"role": "user", "content": "What is the capital of France?"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def tokenizer(smollm2_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(smollm2_folder)


def render(tokenizer: Any, *messages: dict[str, Any], **options: Any) -> str:
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, **options)
    assert isinstance(text, str)
    return text


def test_markers_are_single_tokens_after_the_vocabulary(tokenizer: Any) -> None:
    assert tokenizer.encode("".join(MARKERS)) == list(range(FIRST_MARKER, FIRST_MARKER + len(MARKERS)))


def test_markers_stay_in_decoded_text_and_turn_ends_do_not(tokenizer: Any) -> None:
    ids = tokenizer.encode("<think>\nwhy\n</think>\n\nso<|im_end|>")
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think>\nwhy\n</think>\n\nso"


@pytest.mark.parametrize("text", ["a  b\n\n\tc 1234", "naïve 東京 🙂", '{"k": [1.5e-3, null]}', " <|im_start|> x"])
def test_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_tokenizer_and_model_agree_on_the_ends(tokenizer: Any, smollm2_folder: Path) -> None:
    generation = json.loads((smollm2_folder / "generation_config.json").read_text())
    assert generation["eos_token_id"] == tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert tokenizer.eos_token_id == 2


def test_marker_row_is_the_mean_of_its_spelling() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    dressed = dressed_embedding(rows, [[0, 1, 5], [2]])
    assert dressed.shape == (64, 2)
    np.testing.assert_array_equal(dressed[:6], rows)
    np.testing.assert_array_equal(dressed[6:8], [[4, 5], [4, 5]])
    np.testing.assert_array_equal(dressed[8:], np.tile([5, 6], (56, 1)))


def test_weights_have_a_row_for_every_token(tokenizer: Any, smollm2_folder: Path) -> None:
    embedding = load_file(smollm2_folder / "model.safetensors")["model.embed_tokens.weight"].float()
    assert embedding.shape == (49_216, 576)
    assert len(tokenizer) == FIRST_MARKER + len(MARKERS)
    spelling = [tokenizer.convert_tokens_to_ids(piece) for piece in ("<", "think", ">")]
    assert torch.allclose(embedding[FIRST_MARKER], embedding[spelling].mean(dim=0), atol=1e-2)
    assert torch.isfinite(embedding).all()


@pytest.mark.slow
def test_model_answers_in_english(tokenizer: Any, smollm2_folder: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(smollm2_folder)
    prompt = tokenizer.apply_chat_template(
        [QUESTION], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert tokenizer.decode(output[0][prompt["input_ids"].shape[1] :]) == "The capital of France is Paris.<|im_end|>"


@pytest.mark.contract("THK-2")
@pytest.mark.parametrize(
    ("options", "ending"),
    [({}, ""), ({"enable_thinking": True}, "<think>\n"), ({"enable_thinking": False}, "<think>\n\n</think>\n\n")],
)
def test_thinking_flag_decides_how_the_prompt_ends(tokenizer: Any, options: dict[str, bool], ending: str) -> None:
    text = render(tokenizer, QUESTION, add_generation_prompt=True, **options)
    assert text == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
        f"<|im_start|>assistant\n{ending}"
    )


def test_own_system_message_replaces_the_default(tokenizer: Any) -> None:
    text = render(tokenizer, {"role": "system", "content": "Be brief."}, QUESTION)
    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")
    assert "helpful" not in text


def test_tools_are_listed_in_the_system_message(tokenizer: Any) -> None:
    listed = '<tools>\n{"name": "f", "parameters": {"type": "object", "properties": {}}}\n</tools>'
    assert listed in render(tokenizer, QUESTION, tools=[TOOL])
    assert "<tools>" not in render(tokenizer, QUESTION)


@pytest.mark.contract("TOOL-5", "TOOL-6")
@pytest.mark.parametrize(("content", "lead"), [(None, ""), ("", ""), ("Let me see.", "Let me see.\n\n")])
def test_calls_are_written_in_the_xml_dialect(tokenizer: Any, content: str | None, lead: str) -> None:
    first = {"function": {"name": "f", "arguments": {"city": " Rome\n", "n": 3, "deep": {"ok": True, "l": [1, "é"]}}}}
    second = {"function": {"name": "g", "arguments": {}}}
    turn = {"role": "assistant", "content": content, "tool_calls": [first, second]}
    expected = (
        f"<|im_start|>assistant\n{lead}<tool_call>\n<function=f>\n<parameter=city>\n Rome\n\n</parameter>\n"
        '<parameter=n>\n3\n</parameter>\n<parameter=deep>\n{"ok": true, "l": [1, "é"]}\n</parameter>\n'
        "</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call><|im_end|>\n"
    )
    assert render(tokenizer, QUESTION, turn).endswith(expected)


def test_call_with_arguments_as_text_is_refused(tokenizer: Any) -> None:
    turn = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    with pytest.raises(Exception, match="must be an object"):
        render(tokenizer, QUESTION, turn)


def test_neighbouring_tool_results_share_a_turn(tokenizer: Any) -> None:
    results = [{"role": "tool", "content": text} for text in ("1", "2")]
    expected = (
        "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response><|im_end|>\n"
    )
    assert render(tokenizer, QUESTION, *results).endswith(expected)


def test_reasoning_stands_before_the_content(tokenizer: Any) -> None:
    turn = {"role": "assistant", "content": " so", "reasoning_content": "why"}
    assert render(tokenizer, QUESTION, turn).endswith("assistant\n<think>\nwhy\n</think>\n\n so<|im_end|>\n")


@pytest.mark.contract("CON-2")
def test_content_is_rendered_as_it_is(tokenizer: Any) -> None:
    turn = {"role": "assistant", "content": "\n a \n\n"}
    assert render(tokenizer, QUESTION, turn).endswith("assistant\n\n a \n\n<|im_end|>\n")
