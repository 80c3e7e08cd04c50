"""A vocabulary from nothing but the bytes of its tokens, for use without a host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ninfer_vllm.vocabulary import TokenClass, Vocabulary


def plain_vocabulary(spellings: Sequence[bytes], eos: Iterable[int]) -> Vocabulary:
    """The vocabulary whose token t spells `spellings[t]` and whose tokens `eos` end a text.

    A token without bytes is never legal: give special tokens, padding and media tokens the empty spelling.
    """
    ends = set(eos)
    classes = bytearray(TokenClass.ORDINARY if spelling else TokenClass.UNUSABLE for spelling in spellings)
    for token in ends:
        classes[token] = TokenClass.EOS
    return Vocabulary(tuple(spellings), bytes(classes), {})
