"""Mask rows: layout, membership, unpacking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.masks.bits import as_bools, is_legal, row_of, words_for


@pytest.mark.contract("MSK-1")
@given(size=st.integers(1, 200), data=st.data())
def test_row_holds_exactly_the_given_ids_in_word_and_bit_order(size: int, data: st.DataObject) -> None:
    ids = data.draw(st.sets(st.integers(0, size - 1)))
    row = row_of(ids, size)
    assert row.dtype == np.int32
    assert len(row) == words_for(size) == -(-size // 32)
    for token in range(len(row) * 32):
        bit = int(np.uint32(row[token // 32])) >> (token % 32) & 1
        assert bit == (token in ids), "a bit beyond the vocabulary is zero"
    assert {token for token in range(size) if is_legal(row, token)} == ids
    assert set(np.flatnonzero(as_bools(row, size))) == ids


@pytest.mark.parametrize("token", [-1, 64, 10_000])
def test_ids_outside_the_row_are_illegal(token: int) -> None:
    assert not is_legal(row_of(range(64), 64), token)
