"""The weights and the vocabulary of the GGUF file, against the formats' definitions spelled out here."""

from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader
from numpy.typing import NDArray

from ninfer_vllm.embedded.gguf_llama import LlamaGguf, hugging_face_name, split_rotary_halves

HEADS, WIDTH, HIDDEN = 3, 8, 5


def decode_q4_1(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Blocks of 20 bytes: half d, half m, 16 bytes with q[0..15] in the low nibbles; the weight is d q + m."""
    rows = blocks.reshape(-1, 20)
    scale = rows[:, 0:2].copy().view(np.float16).astype(np.float32)
    least = rows[:, 2:4].copy().view(np.float16).astype(np.float32)
    quants = np.concatenate([rows[:, 4:] & 15, rows[:, 4:] >> 4], axis=1).astype(np.float32)
    weights: NDArray[np.float32] = (scale * quants + least).reshape(blocks.shape[0], -1)
    return weights


def decode_q8_0(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Blocks of 34 bytes: half d, 32 signed bytes; the weight is d q."""
    rows = blocks.reshape(-1, 34)
    scale = rows[:, 0:2].copy().view(np.float16).astype(np.float32)
    return (scale * rows[:, 2:].view(np.int8).astype(np.float32)).reshape(blocks.shape[0], -1)


def rotate(vector: NDArray[np.float64], position: int, *, interleaved: bool) -> NDArray[np.float64]:
    """Rotary embedding of one head's vector, with pairs side by side or half a head apart."""
    angle = position / 100.0 ** (np.arange(WIDTH // 2) / (WIDTH // 2))
    real, imaginary = (vector[0::2], vector[1::2]) if interleaved else (vector[: WIDTH // 2], vector[WIDTH // 2 :])
    turned = (real + 1j * imaginary) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag])


@pytest.fixture(scope="module")
def gguf(gguf_file: Path) -> LlamaGguf:
    return LlamaGguf(gguf_file)


@pytest.fixture(scope="module")
def first_tensors(gguf: LlamaGguf) -> dict[str, NDArray[np.float32]]:
    """The embedding and the first layer, which open the file."""
    return dict(takewhile(lambda named: ".layers.1." not in named[0], gguf.tensors()))


def test_scores_are_the_same_under_both_rotary_orders() -> None:
    rng = np.random.default_rng(3)
    query, key = (rng.normal(size=(HEADS * WIDTH, HIDDEN)).astype(np.float32) for _ in range(2))
    inputs = rng.normal(size=(2, HIDDEN))
    for head in range(HEADS):
        rows = slice(head * WIDTH, (head + 1) * WIDTH)
        scores = [
            rotate(q[rows] @ inputs[0], 11, interleaved=interleaved)
            @ rotate(k[rows] @ inputs[1], 4, interleaved=interleaved)
            for q, k, interleaved in (
                (query, key, True),
                (split_rotary_halves(query, HEADS), split_rotary_halves(key, HEADS), False),
            )
        ]
        assert scores[0] == pytest.approx(scores[1], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.12.attn_output.weight", "model.layers.12.self_attn.o_proj.weight"),
        ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
    ],
)
def test_tensor_names_are_translated(name: str, expected: str) -> None:
    assert hugging_face_name(name) == expected


def test_weights_are_those_of_the_quantised_blocks(
    gguf_file: Path, first_tensors: dict[str, NDArray[np.float32]]
) -> None:
    raw = {tensor.name: tensor.data for tensor in GGUFReader(gguf_file).tensors}
    down = first_tensors["model.layers.0.mlp.down_proj.weight"]
    np.testing.assert_array_equal(down, decode_q4_1(raw["blk.0.ffn_down.weight"]))
    embedding = first_tensors["model.embed_tokens.weight"]
    np.testing.assert_array_equal(embedding, decode_q8_0(raw["token_embd.weight"]))
    query = first_tensors["model.layers.0.self_attn.q_proj.weight"]
    np.testing.assert_array_equal(query, split_rotary_halves(decode_q4_1(raw["blk.0.attn_q.weight"]), 9))
    key = first_tensors["model.layers.0.self_attn.k_proj.weight"]
    np.testing.assert_array_equal(key, split_rotary_halves(decode_q4_1(raw["blk.0.attn_k.weight"]), 3))


def test_sizes_are_smollm2s(gguf: LlamaGguf) -> None:
    sizes = gguf.sizes
    assert (sizes.num_layers, sizes.hidden, sizes.intermediate) == (30, 576, 1536)
    assert (sizes.num_heads, sizes.num_kv_heads, sizes.context) == (9, 3, 8192)
    assert (sizes.rope_theta, sizes.norm_epsilon) == (100_000.0, 1e-05)


def test_control_tokens_are_smollm2s(gguf: LlamaGguf) -> None:
    vocabulary = gguf.vocabulary
    assert len(vocabulary.tokens) == 49_152
    assert vocabulary.control_ids == tuple(range(17))
    assert vocabulary.tokens[:3] == ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
