"""What a GGUF file of the llama architecture holds: sizes, vocabulary and dequantised weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, TokenType, dequantize

from ninfer_vllm.embedded.checkpoint import Float32

_OUTER = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True, slots=True)
class LlamaSizes:
    """The numbers that describe the network."""

    num_layers: int
    hidden: int
    intermediate: int
    num_heads: int
    num_kv_heads: int
    context: int
    rope_theta: float
    norm_epsilon: float


@dataclass(frozen=True, slots=True)
class BpeVocabulary:
    """Token spellings by id in the byte alphabet, the merges by rank, and which ids are control tokens."""

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    control_ids: tuple[int, ...]


class LlamaGguf:
    """An open GGUF file whose head is tied to its embedding."""

    def __init__(self, path: Path) -> None:
        self._reader = GGUFReader(path)

    @property
    def sizes(self) -> LlamaSizes:
        """The network's numbers."""
        return LlamaSizes(
            num_layers=self._field("llama.block_count"),
            hidden=self._field("llama.embedding_length"),
            intermediate=self._field("llama.feed_forward_length"),
            num_heads=self._field("llama.attention.head_count"),
            num_kv_heads=self._field("llama.attention.head_count_kv"),
            context=self._field("llama.context_length"),
            rope_theta=float(self._field("llama.rope.freq_base")),
            # The file holds a binary32; the shortest decimal that rounds to it is what was meant.
            norm_epsilon=float(str(np.float32(self._field("llama.attention.layer_norm_rms_epsilon")))),
        )

    @property
    def vocabulary(self) -> BpeVocabulary:
        """The byte-level BPE vocabulary."""
        types = self._field("tokenizer.ggml.token_type")
        left_right = (merge.split(" ") for merge in self._field("tokenizer.ggml.merges"))
        return BpeVocabulary(
            tokens=tuple(self._field("tokenizer.ggml.tokens")),
            merges=tuple((left, right) for left, right in left_right),
            control_ids=tuple(token_id for token_id, kind in enumerate(types) if kind == TokenType.CONTROL),
        )

    def tensors(self) -> Iterator[tuple[str, Float32]]:
        """Every tensor under its Hugging Face name, dequantised, in the file's order."""
        num_heads = {"attn_q": self.sizes.num_heads, "attn_k": self.sizes.num_kv_heads}
        for tensor in self._reader.tensors:
            # GGUF lists a shape with the fastest axis first.
            shape = tuple(int(size) for size in reversed(tensor.shape))
            values = dequantize(tensor.data, tensor.tensor_type).reshape(shape)
            kind = tensor.name.removesuffix(".weight").rpartition(".")[2]
            if kind in num_heads:
                values = split_rotary_halves(values, num_heads[kind])
            yield hugging_face_name(tensor.name), values

    def _field(self, key: str) -> Any:
        return self._reader.fields[key].contents()


def hugging_face_name(name: str) -> str:
    """The Hugging Face name of a GGUF tensor: blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight."""
    if name in _OUTER:
        return _OUTER[name]
    _, layer, kind, suffix = name.split(".")
    return f"model.layers.{layer}.{_IN_LAYER[kind]}.{suffix}"


def split_rotary_halves(weight: Float32, num_heads: int) -> Float32:
    """Reorder a query or key projection from rotary pairs side by side to rotary pairs half a head apart.

    Formula:  within each head of d rows, out[j] = in[2j] and out[d/2 + j] = in[2j + 1], for j < d/2.
    Shapes:   weight [num_heads * d, hidden].
    Source:   llama.cpp's GGUF stores the interleaved order; transformers' rotate_half pairs j with j + d/2.
    """
    rows, columns = weight.shape
    by_pair = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return by_pair.swapaxes(1, 2).reshape(rows, columns)
