"""Tiny draft heads beside the random model, in the host's checkpoint formats: EAGLE, EAGLE3, MTP, DFlash and Medusa.

Theory of operation. A test of exactness needs drafts that are accepted about as often as rejected, and some that are
illegal. Behind a digit or a letter every head here proposes single letters, a legal and an illegal one about equally.
Heads with a vocabulary of their own have nothing but letters in it. The others share the model's head, so what they
feed it is solved for: the vector that gives the two letters one large logit and, as its rows are random, all other
tokens a small one.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from ninfer_vllm.embedded.checkpoint import Float32, to_bfloat16, write_json, write_safetensors
from ninfer_vllm.embedded.tiny_qwen3 import random_tensors

LEGAL, ILLEGAL = "acegikmo", "bdfhjlnp"
LETTERS = LEGAL + ILLEGAL

WIDTH, INNER, HEADS, KV_HEADS, HEAD_WIDTH = 64, 128, 4, 2, 32
VOCABULARY = 151_936
MASK = 151_662
SHARED_LOGIT = 24.0
"""Of the two letters: far enough above 150,000 others that the two share the probability at temperature 1."""

NUM_MEDUSA_HEADS = 2


def token_of(character: str) -> int:
    """The id of a visible ASCII character in Qwen's vocabulary, which begins with them."""
    return ord(character) - ord("!")


def write_eagle(folder: Path) -> None:
    """One layer on the embedding of the last token, with the target's embedding and head."""
    rng = np.random.default_rng(1)
    tensors = {"fc.weight": np.hstack([_from_last_token(), np.zeros((WIDTH, WIDTH), np.float32)])}
    tensors |= _layer(rng, "layers.0.", WIDTH)
    # The first layer of an EAGLE head has no norm in front of it.
    del tensors["layers.0.input_layernorm.weight"]
    _write(folder, _llama("LlamaForCausalLM"), tensors)


def write_eagle3(folder: Path) -> None:
    """One layer on the embedding and two hidden states, with a head and a vocabulary of its own."""
    rng = np.random.default_rng(2)
    tensors = _layer(rng, "midlayer.", 2 * WIDTH, strength=1.0)
    tensors |= {"midlayer.hidden_norm.weight": _ones(WIDTH), "norm.weight": _ones(WIDTH)}
    tensors |= {"fc.weight": _random(rng, WIDTH, 2 * WIDTH), "lm_head.weight": _random(rng, len(LETTERS), WIDTH)}
    config = _llama("LlamaForCausalLMEagle3")
    config |= {"draft_vocab_size": len(LETTERS), "eagle_aux_hidden_state_layer_ids": [1, 2], "num_aux_hidden_states": 2}
    _write(folder, config, tensors, d2t=_letter_ids() - np.arange(len(LETTERS)))


def write_dflash(folder: Path) -> None:
    """One layer that proposes all drafts at once, with a head and a vocabulary of its own."""
    rng = np.random.default_rng(3)
    tensors = _layer(rng, "layers.0.", WIDTH, strength=1.0)
    tensors |= {f"layers.0.self_attn.{name}_norm.weight": _ones(HEAD_WIDTH) for name in "qk"}
    tensors |= {"hidden_norm.weight": _ones(WIDTH), "norm.weight": _ones(WIDTH)}
    tensors |= {"fc.weight": _random(rng, WIDTH, 2 * WIDTH), "lm_head.weight": _random(rng, len(LETTERS), WIDTH)}
    config = _llama("DFlashDraftModel") | {"model_type": "qwen3", "draft_vocab_size": len(LETTERS), "block_size": 4}
    config["dflash_config"] = {"mask_token_id": MASK, "target_layer_ids": [0, 1], "use_aux_hidden_state": True}
    _write(folder, config, tensors, d2t=_letter_ids() - np.arange(len(LETTERS)))


def write_medusa(folder: Path) -> None:
    """Two heads on the last hidden state; only letters have a row other than 0 in what they share.

    The host does not load the format's own map of a smaller vocabulary: it calls it not initialized.
    """
    rng = np.random.default_rng(4)
    tensors = {f"blocks.{at}.layers.0.weight": _random(rng, WIDTH, WIDTH) for at in range(NUM_MEDUSA_HEADS)}
    tensors["lm_heads.0.weight"] = np.zeros((VOCABULARY, WIDTH), np.float32)
    tensors["lm_heads.0.weight"][_letter_ids()] = _random(rng, len(LETTERS), WIDTH)
    config = {
        "architectures": ["MedusaModel"], "model_type": "medusa", "hidden_size": WIDTH, "vocab_size": VOCABULARY,
        "num_heads": NUM_MEDUSA_HEADS, "num_hidden_layers": 1, "dtype": "float32", "original_lm_head": True,
    }  # fmt: skip
    _write(folder, config, tensors)


def write_model_with_mtp(folder: Path, tiny: Path) -> None:
    """The random model in an architecture that has a layer for the token after the next, and that layer."""
    rng = np.random.default_rng(5)
    tensors = {
        name: _narrowed(name, values)
        for name, values in random_tensors()
        if not name.endswith(("q_norm.weight", "k_norm.weight"))
    }
    own = "model.mtp_layers.0."
    tensors |= {name: _narrowed(name, values) for name, values in _layer(rng, own, WIDTH).items()}
    tensors |= {f"{own}{name}_layernorm.weight": _ones(WIDTH) for name in ("token", "hidden")}
    tensors[f"{own}input_proj.weight"] = np.hstack([np.zeros((WIDTH, WIDTH), np.float32), _from_last_token()])
    # The norm in front of the shared head takes the length of what was solved for; this gives it one back.
    tensors[f"{own}final_layernorm.weight"] = _ones(WIDTH) * np.float32(2.2)
    tensors |= {
        name.replace("_proj.weight", "_proj.bias"): np.zeros(len(values), np.float32)
        for name, values in tensors.items()
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))
    }
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", {name: to_bfloat16(values) for name, values in tensors.items()})
    config = _llama("MiMoForCausalLM") | {"model_type": "qwen2", "num_hidden_layers": 2, "num_nextn_predict_layers": 1}
    heads = {"num_attention_heads": HEADS // 2, "num_key_value_heads": KV_HEADS // 2}
    write_json(folder / "config.json", config | heads | {"dtype": "bfloat16"})
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        copyfile(tiny / name, folder / name)


def _narrowed(name: str, values: Float32) -> Float32:
    """Half of an attention's heads: this architecture has the model's width in all heads together, and no other."""
    if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
        return values[: len(values) // 2]
    return values[:, : values.shape[1] // 2] if name.endswith("o_proj.weight") else values


@cache
def _shared() -> tuple[Float32, Float32]:
    """The random model's embedding and head, [V, width] each."""
    tensors = dict(random_tensors())
    return tensors["model.embed_tokens.weight"], tensors["lm_head.weight"]


def _from_last_token() -> Float32:
    """[width, width]: from the embedding of a digit or letter to what makes the head propose two letters."""
    embedding, head = _shared()
    known = list(string.digits + LETTERS)
    wanted = []
    for at, _ in enumerate(known):
        pair = [token_of(LEGAL[at % len(LEGAL)]), token_of(ILLEGAL[(3 * at + 1) % len(ILLEGAL)])]
        wanted.append(np.linalg.pinv(head[pair]) @ np.full(2, SHARED_LOGIT))
    given = embedding[[token_of(character) for character in known]]
    return np.float32((np.linalg.pinv(given) @ np.stack(wanted)).T)


def _letter_ids() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ids of the letters in an order of its own, so that a draft's id never is its place."""
    return np.array([token_of(letter) for letter in reversed(LETTERS)])


def _layer(rng: np.random.Generator, prefix: str, inputs: int, strength: float = 0.1) -> dict[str, Float32]:
    """A random decoder layer that adds so much to the stream."""
    heads = {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
    tensors = {f"self_attn.{name}_proj": _random(rng, count * HEAD_WIDTH, inputs) for name, count in heads.items()}
    tensors["self_attn.o_proj"] = _random(rng, WIDTH, HEADS * HEAD_WIDTH) * np.float32(strength)
    tensors |= {f"mlp.{name}_proj": _random(rng, INNER, WIDTH) for name in ("gate", "up")}
    tensors["mlp.down_proj"] = _random(rng, WIDTH, INNER) * np.float32(strength)
    tensors |= {name: _ones(WIDTH) for name in ("input_layernorm", "post_attention_layernorm")}
    return {f"{prefix}{name}.weight": values for name, values in tensors.items()}


def _llama(architecture: str) -> dict[str, Any]:
    return {
        "architectures": [architecture], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH,
        "intermediate_size": INNER, "num_hidden_layers": 1, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_WIDTH, "hidden_act": "silu", "rms_norm_eps": 1e-06,
        "rope_theta": 10_000.0,
        "max_position_embeddings": 4096, "tie_word_embeddings": False, "attention_bias": False, "dtype": "float32",
        "bos_token_id": None, "eos_token_id": 151_645, "pad_token_id": 151_643,
    }  # fmt: skip


def _write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Float32], **ids: Any) -> None:
    folder.mkdir()
    write_json(folder / "config.json", config)
    arrays = {name: np.ascontiguousarray(values) for name, values in {**tensors, **ids}.items()}
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})


def _random(rng: np.random.Generator, outputs: int, inputs: int) -> Float32:
    return np.float32(rng.normal(size=(outputs, inputs)) * inputs**-0.5)


def _ones(size: int) -> Float32:
    return np.ones(size, np.float32)
