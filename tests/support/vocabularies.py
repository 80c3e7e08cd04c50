"""Small token domains for tests: every byte is a token, a few tokens hold several bytes."""

from __future__ import annotations

from ninfer_vllm.vocabulary import TokenClass, Vocabulary

EOS = 256
THINK, END_THINK = 257, 258
MULTI = (b"ab", b"abc", b"\n\n", b'{"', b'":', b"\n", b" ok", "é".encode(), "海".encode())
FIRST_MULTI = 259
PADDING = 5


def byte_vocabulary() -> Vocabulary:
    """256 byte tokens, EOS, two thinking tokens, a few longer tokens, then padding ids."""
    spellings = [bytes([value]) for value in range(256)]
    spellings += [b"<eos>", b"<think>", b"</think>", *MULTI, *[b""] * PADDING]
    classes = bytearray([TokenClass.ORDINARY] * len(spellings))
    classes[EOS] = TokenClass.EOS
    classes[THINK] = classes[END_THINK] = TokenClass.CONTROL
    for token in range(len(spellings) - PADDING, len(spellings)):
        classes[token] = TokenClass.UNUSABLE
    names = {"<eos>": EOS, "<think>": THINK, "</think>": END_THINK}
    return Vocabulary(tuple(spellings), bytes(classes), names)


def token_of(spelling: bytes) -> int:
    """The id of a byte or of one of the longer tokens."""
    return spelling[0] if len(spelling) == 1 and spelling not in MULTI else FIRST_MULTI + MULTI.index(spelling)
