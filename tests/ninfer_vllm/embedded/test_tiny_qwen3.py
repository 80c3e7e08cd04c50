"""The random model: the same on every machine, and neither certain nor uniform."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

# Of the weights of recipe 1; other bytes want a new recipe version.
WEIGHTS_SHA256 = "b17d1943a6cc2f652ac2152f1da5651e8eed19b92f18cf3e892dfe2107fccb2c"
END_OF_TEXT, TURN_END, PADDED_VOCAB_SIZE = 151_643, 151_645, 151_936


@pytest.fixture(scope="module")
def model(tiny_qwen3_folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(tiny_qwen3_folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def logits(model: Any) -> torch.Tensor:
    """Of 64 positions behind random tokens."""
    token_ids = torch.randint(END_OF_TEXT, (4, 16), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = model(token_ids).logits
    assert isinstance(found, torch.Tensor)
    return found.flatten(0, 1)


def test_weights_are_reproducible(tiny_qwen3_folder: Path) -> None:
    with (tiny_qwen3_folder / "model.safetensors").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == WEIGHTS_SHA256


def test_model_is_read_as_qwen3(model: Any) -> None:
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert model.config.vocab_size == PADDED_VOCAB_SIZE


def test_ends_are_qwen3s(tiny_qwen3_folder: Path) -> None:
    generation = json.loads((tiny_qwen3_folder / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [TURN_END, END_OF_TEXT]


def test_sampling_is_varied_and_no_token_leads(logits: torch.Tensor) -> None:
    probabilities = logits.softmax(dim=-1)
    entropy = -(probabilities * logits.log_softmax(dim=-1)).sum(dim=-1)
    assert entropy.min() > 8.0
    assert probabilities.max() < 0.05


def test_logits_are_not_flat(logits: torch.Tensor) -> None:
    assert 1.5 < logits.std(dim=-1).mean() < 2.5


def test_columns_without_a_token_compete(logits: torch.Tensor) -> None:
    padding = logits[:, 151_669:]
    assert padding.std() == pytest.approx(logits.std().item(), rel=0.2)


def test_context_decides_the_next_token(model: Any) -> None:
    same_end = torch.tensor([[100, 200, 300, 7], [400, 500, 600, 7]])
    with torch.no_grad():
        best = model(same_end).logits[:, -1].argmax(dim=-1)
    assert best[0] != best[1]
