"""Token bitmasks as NumPy rows: 32-bit words, bit 1 = legal, word = id // 32, bit = id % 32 (MSK-1)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

MaskRow = npt.NDArray[np.int32]
"""One row over V tokens: ceil(V/32) words, bits beyond V zero."""

WORD_BITS = 32
WORD_BYTES = 4


def words_for(tokens: int) -> int:
    """32-bit words of a row over `tokens` columns."""
    return (tokens + WORD_BITS - 1) // WORD_BITS


def empty_row(tokens: int) -> MaskRow:
    """A new row in which nothing is legal."""
    return np.zeros(words_for(tokens), dtype=np.int32)


def row_of(ids: Iterable[int], tokens: int) -> MaskRow:
    """A new row in which exactly `ids` are legal."""
    legal = np.zeros(words_for(tokens) * WORD_BITS, dtype=np.uint8)
    legal[list(ids)] = 1
    return np.packbits(legal, bitorder="little").view(np.int32)


def is_legal(row: MaskRow, token: int) -> bool:
    """Whether the bit of `token` is set; ids outside the row, -1 included, are illegal."""
    if not 0 <= token < len(row) * WORD_BITS:
        return False
    return bool(int(row[token // WORD_BITS]) >> (token % WORD_BITS) & 1)


def as_bools(row: MaskRow, tokens: int) -> npt.NDArray[np.bool_]:
    """The row unpacked, one entry a token: [tokens]."""
    return np.unpackbits(row.view(np.uint8), bitorder="little", count=tokens).astype(np.bool_)
