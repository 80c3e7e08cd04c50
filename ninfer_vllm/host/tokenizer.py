"""From a model's tokenizer to a `Vocabulary`: raw bytes and an explicit class for every id (TOK)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ninfer_vllm.errors import UnsupportedTokenizer
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

METASPACE = "\u2581"


def vocabulary_of(tokenizer: Any, size: int, eos_ids: Iterable[int]) -> Vocabulary:
    """The token domain of a model with `size` columns.

    `tokenizer` is a Hugging Face fast tokenizer or a `tokenizers.Tokenizer`. Added tokens are control tokens (legal
    only where a rule names their id), except runs of white space, which are ordinary text.

    Errors: UnsupportedTokenizer where the pieces' byte spelling is not known.
    """
    description = _description(tokenizer)
    decode = _piece_decoder(description, type(tokenizer).__name__)
    spellings = [b""] * size
    classes = bytearray([TokenClass.UNUSABLE]) * size
    for piece, token in _pieces(description["model"]["vocab"]):
        if token < size:
            spellings[token] = decode(piece)
            classes[token] = TokenClass.ORDINARY
    names: dict[str, int] = {}
    for added in description["added_tokens"]:
        token, content = added["id"], added["content"]
        if token >= size:
            continue
        spellings[token] = content.encode()
        classes[token] = TokenClass.ORDINARY if content.isspace() and not added["special"] else TokenClass.CONTROL
        names[content] = token
    for token in eos_ids:
        classes[token] = TokenClass.EOS
    return Vocabulary(tuple(spellings), bytes(classes), names)


def _description(tokenizer: Any) -> dict[str, Any]:
    backend = tokenizer if hasattr(tokenizer, "to_str") else getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "to_str"):
        raise UnsupportedTokenizer(type(tokenizer).__name__, "only fast (tokenizers) tokenizers are supported")
    description: dict[str, Any] = json.loads(backend.to_str())
    return description


def _pieces(vocab: Mapping[str, int] | list[list[Any]]) -> Iterable[tuple[str, int]]:
    if isinstance(vocab, Mapping):
        return vocab.items()
    return ((piece, token) for token, (piece, _) in enumerate(vocab))


def _piece_decoder(description: dict[str, Any], name: str) -> Callable[[str], bytes]:
    kinds = {step["type"] for step in _decoder_steps(description.get("decoder"))}
    if "ByteLevel" in kinds:
        alphabet = byte_alphabet()
        return lambda piece: bytes(alphabet[char] for char in piece)
    if "ByteFallback" in kinds:
        return _sentencepiece_bytes
    raise UnsupportedTokenizer(name, f"its decoder ({', '.join(sorted(kinds)) or 'none'}) is neither byte-level nor byte-fallback")


def _decoder_steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    return [step for inner in decoder["decoders"] for step in _decoder_steps(inner)] if "decoders" in decoder else [decoder]


def _sentencepiece_bytes(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace(METASPACE, " ").encode()


def byte_alphabet() -> dict[str, int]:
    """The printable stand-ins of byte-level BPE, as bytes.

    Source: the reversible byte mapping of GPT-2's encoder: printable Latin-1 stands for itself, every other byte for
    the next free code point from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    alphabet.update({chr(0x100 + at): byte for at, byte in enumerate(others)})
    return alphabet
