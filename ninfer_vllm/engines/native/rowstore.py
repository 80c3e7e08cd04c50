"""Rows that stay as they are, equal ones kept once."""

from __future__ import annotations

from ninfer_vllm.engines.native.arrays import Words
from ninfer_vllm.engines.native.compiled import compiled_row_kernels


class RowStore:
    """Rows that stay as they are, equal ones kept once."""

    def __init__(self) -> None:
        self._known: dict[int, Words] = {}
        """By their digests; where that is another row's, by the next free number."""
        self.nbytes = 0

    def is_empty(self, row: Words) -> bool:
        """Whether a kept row has no token."""
        return row is self._known.get(0)

    def shared(self, row: Words) -> Words:
        """The kept row that is equal to this one, or this one, which must not change any more.

        A row that somebody keeps already is given back.
        """
        if not row.flags.writeable:
            return row
        kernels = compiled_row_kernels()
        key = kernels.digest(row)
        known = self._known.get(key)
        while known is not None:
            if kernels.is_equal(known, row):
                return known
            key += 1
            known = self._known.get(key)
        row.flags.writeable = False
        self._known[key] = row
        self.nbytes += row.nbytes
        return row
