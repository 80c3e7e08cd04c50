"""Vocabularies: raw bytes and explicit classes of every supported kind of tokenizer."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from ninfer_vllm.embedded import tokenizer as embedded_tokenizer
from ninfer_vllm.errors import UnsupportedTokenizer
from ninfer_vllm.host.tokenizer import byte_alphabet, vocabulary_of
from ninfer_vllm.vocabulary import TokenClass, Vocabulary


@pytest.fixture(scope="module")
def qwen() -> tuple[Tokenizer, Vocabulary]:
    tokenizer = Tokenizer.from_file(str(embedded_tokenizer("embedded-qwen") / "tokenizer.json"))
    return tokenizer, vocabulary_of(tokenizer, 151936, [151645, 151643])


@pytest.mark.contract("TOK-1")
def test_bytes_of_tokens_join_to_the_text_also_inside_characters(qwen) -> None:
    tokenizer, vocabulary = qwen
    for text in ("héllo 海\U0001f600 \t\n", "def f(x):\n    return x", "الإمارات ১২৩"):
        ids = tokenizer.encode(text).ids
        assert b"".join(vocabulary.spellings[token] for token in ids) == text.encode()
    partial = [spelling for spelling in vocabulary.spellings if spelling and not _is_text(spelling)]
    assert len(partial) > 100, "tokens that hold part of a character keep their raw bytes"


@pytest.mark.contract("TOK-2", "TOK-3", "TOK-5")
def test_padding_control_and_eos_are_told_apart(qwen) -> None:
    _, vocabulary = qwen
    assert len(vocabulary) == 151936
    assert vocabulary.class_of(151643) is vocabulary.class_of(151645) is TokenClass.EOS
    control = {
        vocabulary.names[name] for name in ("<think>", "</think>", "<tool_call>", "<|im_start|>", "<|image_pad|>")
    }
    assert all(vocabulary.class_of(token) is TokenClass.CONTROL for token in control)
    assert all(vocabulary.class_of(token) is TokenClass.UNUSABLE for token in (151669, 151935, 151936, -1))
    assert vocabulary.class_of(0) is TokenClass.ORDINARY


@pytest.mark.contract("TOK-4")
def test_visible_text_of_a_control_token_is_spelled_by_ordinary_tokens_too(qwen) -> None:
    tokenizer, vocabulary = qwen
    spelled = [vocabulary.spellings[token] for token in tokenizer.encode("< think >").ids]
    assert vocabulary.spellings[vocabulary.names["<think>"]] == b"<think>"
    assert b"<think>" not in spelled


@pytest.mark.contract("TOK-1")
def test_byte_fallback_pieces_are_their_bytes() -> None:
    model = models.BPE(
        vocab={"<0xE6>": 0, "\u2581a": 1, "b\u2581c": 2, "<0x0A>": 3, "x": 4}, merges=[], byte_fallback=True
    )
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_tokens([AddedToken("  ", special=False), AddedToken("<s>", special=True)])
    vocabulary = vocabulary_of(tokenizer, 8, [6])
    assert vocabulary.spellings[:6] == (b"\xe6", b" a", b"b c", b"\n", b"x", b"  ")
    assert vocabulary.class_of(5) is TokenClass.ORDINARY, "runs of white space are text"
    assert vocabulary.class_of(6) is TokenClass.EOS
    assert vocabulary.class_of(7) is TokenClass.UNUSABLE


@pytest.mark.contract("TOK-1", "ERR-1")
@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.CTC()])
def test_unknown_kinds_are_refused_with_their_name(decoder) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    if decoder is not None:
        tokenizer.decoder = decoder
    with pytest.raises(UnsupportedTokenizer, match="Tokenizer"):
        vocabulary_of(tokenizer, 1, [])
    with pytest.raises(UnsupportedTokenizer, match="object"):
        vocabulary_of(object(), 1, [])


def test_byte_alphabet_is_a_bijection() -> None:
    assert sorted(byte_alphabet().values()) == list(range(256))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.contract("TOK-2")
@pytest.mark.parametrize("end", [-1, 9, 10**9])
def test_end_tokens_outside_the_domain_are_refused(end: int) -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    with pytest.raises(UnsupportedTokenizer, match=str(end)):
        vocabulary_of(tokenizer, 9, [end])
