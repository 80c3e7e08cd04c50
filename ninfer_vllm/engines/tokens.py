"""How the tokens of a vocabulary look to the xgrammar core."""

from __future__ import annotations

from ninfer_vllm.vocabulary import TokenClass, Vocabulary

SAMPLE_STEP = 32
"""One ordinary token in so many belongs to the sample."""

SAMPLE_LONG = 64
"""Bytes from which every token belongs to it: they read furthest ahead."""

SAMPLE_ALL = 8192
"""A vocabulary up to this size is its own sample."""


def sampled_spellings(vocabulary: Vocabulary) -> list[bytes]:
    """The bytes of a sample of the vocabulary, other ids without bytes: quick to compile for, under the same ids."""
    spelled = core_spellings(vocabulary)
    if len(spelled) <= SAMPLE_ALL:
        return spelled
    ordinary = TokenClass.ORDINARY
    return [
        spelling if len(spelling) not in _MIDDLE or token % SAMPLE_STEP == 0 or token_class != ordinary else b""
        for token, (spelling, token_class) in enumerate(zip(spelled, vocabulary.classes, strict=True))
    ]


_MIDDLE = range(2, SAMPLE_LONG)


def core_spellings(vocabulary: Vocabulary) -> list[bytes]:
    """The bytes the core takes for each id.

    Control tokens begin with the byte FF, which no text holds: they never match by spelling, but by `Token(id)`.
    Ids without bytes are never legal to the core; EOS needs none, it is known by id.
    """
    return [_core_spelling(token, vocabulary) for token in range(len(vocabulary))]


def end_ids(vocabulary: Vocabulary) -> list[int]:
    """The ids that end a complete output."""
    return list(vocabulary.ids(TokenClass.EOS))


def _core_spelling(token: int, vocabulary: Vocabulary) -> bytes:
    token_class = vocabulary.class_of(token)
    if token_class is TokenClass.ORDINARY:
        return vocabulary.spellings[token]
    return b"\xff%d" % token if token_class is TokenClass.CONTROL else b""
