"""Qwen3's tokenizer, built from the tiktoken ranks that the dashscope package carries."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from ninfer_vllm.embedded.cache import Progress
from ninfer_vllm.embedded.checkpoint import write_json
from ninfer_vllm.embedded.registry import PackagedFile, fetch

SOURCE = PackagedFile(
    package="dashscope",
    version="2.0.2",
    member="dashscope/resources/qwen.tiktoken",
    sha256="b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
    wheel_bytes=2_425_551,
)

# The first 14 added tokens are special (left out by skip_special_tokens), the others are ordinary to a decoder.
SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
)
MARKERS = (
    *("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
)

# Qwen's words: contractions, letters after at most one other character, single digits, punctuation, white space.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

Ranks = dict[bytes, int]


def write_tokenizer(folder: Path, progress: Progress) -> None:
    """Write the tokenizer's files and the chat template of a hybrid thinking model."""
    ranks = read_ranks(fetch(SOURCE, progress))
    progress("rebuilding the merges of Qwen's vocabulary")
    (folder / "tokenizer.json").write_text(tokenizer_json(ranks), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 131072,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", config)
    template = files("ninfer_vllm.embedded").joinpath("chat_template_hybrid.jinja").read_text(encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def read_ranks(path: Path) -> Ranks:
    """Token bytes to rank; a line is the base64 of the bytes, a space and the rank."""
    pairs = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def tokenizer_json(ranks: Mapping[bytes, int]) -> str:
    """The ranks and the added tokens as a `tokenizer.json`; added ids follow the last rank."""
    spell = spelling_table()
    vocabulary = {token.decode("latin-1").translate(spell): rank for token, rank in ranks.items()}
    merges = [
        (left.decode("latin-1").translate(spell), right.decode("latin-1").translate(spell))
        for left, right in merges_of(ranks)
    ]
    no_change = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, continuing_subword_prefix="", end_of_word_suffix="")
    )
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_WORDS), "isolated"), pre_tokenizers.ByteLevel(**no_change)]
    )
    tokenizer.post_processor = processors.ByteLevel(**no_change)
    tokenizer.decoder = decoders.ByteLevel()
    added = [AddedToken(text, normalized=False, special=text in SPECIAL) for text in SPECIAL + MARKERS]
    tokenizer.add_tokens(added)
    document = json.loads(tokenizer.to_str())
    # The decoder's flags have no argument in Python. They change nothing when decoding, but with them the document
    # is the published one, byte for byte.
    document["decoder"] = {"type": "ByteLevel", **no_change}
    return json.dumps(document, ensure_ascii=False, indent=2)


def merges_of(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The merge that makes each token of more than one byte, in rank order.

    Formula:  the two pieces that are left of the token after byte pair encoding with lower ranks only.
    """
    by_rank = sorted((rank, token) for token, rank in ranks.items() if len(token) > 1)
    return [_last_pair(ranks, token, rank) for rank, token in by_rank]


def spelling_table() -> dict[int, str]:
    """Byte to the printable character that spells it in a byte-level vocabulary.

    Source:   GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 and up, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


def _last_pair(ranks: Mapping[bytes, int], token: bytes, limit: int) -> tuple[bytes, bytes]:
    """Merge the token's bytes by ranks under the limit until two pieces are left."""
    pieces = [token[i : i + 1] for i in range(len(token))]
    while len(pieces) > 2:
        merged = [ranks.get(pieces[i] + pieces[i + 1], limit) for i in range(len(pieces) - 1)]
        lowest = min(merged)
        assert lowest < limit, f"rank {limit} is no merge of lower ranks"
        at = merged.index(lowest)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces[0], pieces[1]
