"""From a model's tokenizer to a `Vocabulary`: raw bytes and an explicit class for every id (TOK)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from tokenizers import Tokenizer

from ninfer_vllm.errors import UnsupportedTokenizer
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

METASPACE = "\u2581"


def vocabulary_of(tokenizer: Any, size: int, eos_ids: Iterable[int]) -> Vocabulary:
    """The token domain of a model with `size` columns.

    `tokenizer` is a Hugging Face fast tokenizer or a `tokenizers.Tokenizer`. Added tokens are control tokens (legal
    only where a rule names their id), except runs of white space, which are ordinary text.

    Errors: UnsupportedTokenizer where the pieces' byte spelling is not known.
    """
    backend = _backend(tokenizer)
    decode = _piece_decoder(backend, type(tokenizer).__name__)
    spellings = [b""] * size
    classes = bytearray([TokenClass.UNUSABLE]) * size
    for piece, token in backend.get_vocab(with_added_tokens=False).items():
        if token < size:
            spellings[token] = decode(piece)
            classes[token] = TokenClass.ORDINARY
    names: dict[str, int] = {}
    for token, added in backend.get_added_tokens_decoder().items():
        if token < size:
            text = added.content.isspace() and not added.special
            spellings[token] = added.content.encode()
            classes[token] = TokenClass.ORDINARY if text else TokenClass.CONTROL
            names[added.content] = token
    for token in eos_ids:
        if not 0 <= token < size:
            raise UnsupportedTokenizer(type(tokenizer).__name__, f"end token {token} is none of its {size} ids")
        classes[token] = TokenClass.EOS
    return Vocabulary(tuple(spellings), bytes(classes), names)


def _backend(tokenizer: Any) -> Tokenizer:
    backend = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise UnsupportedTokenizer(type(tokenizer).__name__, "only fast (tokenizers) tokenizers are supported")
    return backend


def _piece_decoder(backend: Tokenizer, name: str) -> Callable[[str], bytes]:
    kinds = {step["type"] for step in _decoder_steps(backend.decoder)}
    if "ByteLevel" in kinds:
        alphabet = byte_alphabet()
        return lambda piece: bytes(map(alphabet.__getitem__, piece))
    if "ByteFallback" in kinds:
        return _sentencepiece_bytes
    known = ", ".join(sorted(kinds)) or "none"
    raise UnsupportedTokenizer(name, f"its decoder ({known}) is neither byte-level nor byte-fallback")


def _decoder_steps(decoder: Any) -> list[dict[str, Any]]:
    """The decoder's steps, read from the state it pickles as: JSON of its own part of the tokenizer file."""
    if decoder is None:
        return []
    state: dict[str, Any] = json.loads(decoder.__getstate__())
    inner: list[dict[str, Any]] = state.get("decoders", [state])
    return inner


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
    others = sorted(set(range(256)) - set(printable))
    alphabet.update({chr(0x100 + at): byte for at, byte in enumerate(others)})
    return alphabet
