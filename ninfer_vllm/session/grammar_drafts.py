"""Grammar drafts: the tokens of a text that the grammar leaves no choice about (SPC-10).

Theory of operation. The text `{"name":` can be cut into tokens in many ways, so its legal tokens are rarely a single
one: they are beginnings of each other. Where they are, the longest is proposed, which is what tokenizers make of such a
text. A draft is a guess like any other: it is verified by the ordinary rule, so no distribution depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.errors import MatcherInconsistency
from ninfer_vllm.masks.bits import WORD_BITS, MaskRow

MOST_LEGAL = 24
"""Legal tokens up to which it is worth seeing whether they are beginnings of each other."""


def forced_tokens(matcher: Matcher, spellings: Sequence[bytes], limit: int, row: MaskRow) -> tuple[int, ...]:
    """At most `limit` tokens of the one way on, fewer where there are several; the matcher stays where it was.

    Shapes: `spellings` one entry a token, empty for control tokens and EOS; `row` ceil(V/32) words, overwritten.
    """
    found: list[int] = []
    try:
        while len(found) < limit and not matcher.terminated and matcher.fill(row):
            token = longest_of_chain(row, spellings)
            if token is None:
                break
            if not matcher.accept(token):
                raise MatcherInconsistency(f"token {token} is in the mask but was not accepted")
            found.append(token)
    finally:
        if found:
            matcher.rollback(len(found))
    return tuple(found)


def longest_of_chain(row: MaskRow, spellings: Sequence[bytes]) -> int | None:
    """The legal token of which all other legal ones are beginnings, or the only one; None without such."""
    words = row.view(np.uint32)
    places = np.flatnonzero(words)
    if len(places) > MOST_LEGAL or int(np.bitwise_count(words[places]).sum()) > MOST_LEGAL:
        return None
    legal = [int(place) * WORD_BITS + bit for place in places for bit in range(WORD_BITS) if words[place] >> bit & 1]
    if len(legal) < 2:
        return legal[0] if legal else None
    longest = max(legal, key=lambda token: len(spellings[token]))
    text = spellings[longest]
    return longest if all(spellings[token] and text.startswith(spellings[token]) for token in legal) else None
