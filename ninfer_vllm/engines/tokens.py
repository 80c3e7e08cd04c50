"""How the tokens of a vocabulary look to the xgrammar core."""

from __future__ import annotations

from ninfer_vllm.vocabulary import TokenClass, Vocabulary


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
