"""A random model of the Qwen3 architecture with Qwen's real vocabulary, which resists every constraint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ninfer_vllm.embedded import qwen_tokenizer
from ninfer_vllm.embedded.cache import Progress
from ninfer_vllm.embedded.checkpoint import Float32, to_bfloat16, write_json, write_safetensors

SEED = 20250101

# Sizes that also split over two tensor-parallel ranks.
_NUM_LAYERS, _HIDDEN, _INTERMEDIATE = 2, 64, 128
_NUM_HEADS, _NUM_KV_HEADS, _HEAD_WIDTH = 4, 2, 32
_CONTEXT = 32768
# Qwen3's own padding: 151669 tokens have ids, the other columns have none.
_PADDED_VOCAB_SIZE = 151_936
_END_OF_TEXT, _TURN_END = 151_643, 151_645

# Standard deviation of the logits. At temperature 1 some thousand tokens share the probability and none leads; at
# temperature 0 the best token is clear of the second by more than bfloat16's rounding nearly always.
_LOGIT_DEVIATION = 2.0
# How much a block adds to the stream, against the embedding's deviation of 1: the context decides, not the last token.
_BLOCK_DEVIATION = 0.7

_CARD = f"""# tiny-qwen3

Made by ninfer-vllm for tests: a Qwen3 network of {_NUM_LAYERS} layers and width {_HIDDEN} with random weights
(seed {SEED}). Its text is noise; whatever form its output has, a constraint has forced. The columns of the logits that
have no token are as likely as the others.

- Vocabulary: `{qwen_tokenizer.SOURCE.member}` from the PyPI package {qwen_tokenizer.SOURCE.package}
  {qwen_tokenizer.SOURCE.version}, which is Alibaba Cloud's, under Apache-2.0.
- Weights, chat template: ninfer-vllm's own, under its licence (Apache-2.0).
"""


def write_model(folder: Path, progress: Progress) -> None:
    """Write the whole model folder."""
    write_domain(folder, progress)
    progress("drawing the weights (39 MB)")
    tensors = {name: to_bfloat16(values) for name, values in random_tensors()}
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "README.md").write_text(_CARD, encoding="utf-8")


def write_domain(folder: Path, progress: Progress) -> None:
    """Write the model's tokenizer, and beside it how many columns its logits have and which tokens end its output."""
    qwen_tokenizer.write_tokenizer(folder, progress)
    write_json(folder / "config.json", _config())
    write_json(
        folder / "generation_config.json",
        {"eos_token_id": [_TURN_END, _END_OF_TEXT], "pad_token_id": _END_OF_TEXT},
    )


def random_tensors() -> Iterator[tuple[str, Float32]]:
    """Every tensor under its Hugging Face name, the same on every machine."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    yield "model.embed_tokens.weight", _uniform(rng, _PADDED_VOCAB_SIZE, _HIDDEN, deviation=1.0)
    for layer in range(_NUM_LAYERS):
        for name, values in _layer(rng):
            yield f"model.layers.{layer}.{name}.weight", values
    yield "model.norm.weight", np.ones(_HIDDEN, dtype=np.float32)
    head_deviation = _LOGIT_DEVIATION / _HIDDEN**0.5
    yield "lm_head.weight", _uniform(rng, _PADDED_VOCAB_SIZE, _HIDDEN, deviation=head_deviation)


def _layer(rng: np.random.Generator) -> Iterator[tuple[str, Float32]]:
    """One decoder layer; a projection keeps its input's deviation, and the two that end a block shrink it."""
    for name, heads in (("q", _NUM_HEADS), ("k", _NUM_KV_HEADS), ("v", _NUM_KV_HEADS)):
        yield f"self_attn.{name}_proj", _projection(rng, heads * _HEAD_WIDTH, _HIDDEN)
    yield "self_attn.o_proj", _projection(rng, _HIDDEN, _NUM_HEADS * _HEAD_WIDTH) * np.float32(_BLOCK_DEVIATION)
    yield "mlp.gate_proj", _projection(rng, _INTERMEDIATE, _HIDDEN)
    yield "mlp.up_proj", _projection(rng, _INTERMEDIATE, _HIDDEN)
    yield "mlp.down_proj", _projection(rng, _HIDDEN, _INTERMEDIATE) * np.float32(_BLOCK_DEVIATION)
    for name in ("self_attn.q_norm", "self_attn.k_norm"):
        yield name, np.ones(_HEAD_WIDTH, dtype=np.float32)
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield name, np.ones(_HIDDEN, dtype=np.float32)


def _projection(rng: np.random.Generator, outputs: int, inputs: int) -> Float32:
    return _uniform(rng, outputs, inputs, deviation=inputs**-0.5)


def _uniform(rng: np.random.Generator, rows: int, columns: int, *, deviation: float) -> Float32:
    """Uniform values around 0: exact arithmetic on the generator's bits, so no mathematical library can change them."""
    unit = rng.random((rows, columns), dtype=np.float32)
    # A uniform distribution on [-a, a) has the standard deviation a / sqrt(3).
    half_width = np.float32(deviation * 3**0.5)
    return (unit * np.float32(2) - np.float32(1)) * half_width


def _config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": _PADDED_VOCAB_SIZE,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INTERMEDIATE,
        "num_hidden_layers": _NUM_LAYERS,
        "num_attention_heads": _NUM_HEADS,
        "num_key_value_heads": _NUM_KV_HEADS,
        "head_dim": _HEAD_WIDTH,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-06,
        "rope_theta": 1_000_000.0,
        "max_position_embeddings": _CONTEXT,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "eos_token_id": _TURN_END,
        "pad_token_id": _END_OF_TEXT,
        "dtype": "bfloat16",
        # The version whose config format this is; it also tells transformers that this is no early Mistral tokenizer.
        "transformers_version": "4.57.0",
    }
