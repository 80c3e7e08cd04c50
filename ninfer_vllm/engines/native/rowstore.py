"""Rows that stay as they are, equal ones kept once."""

from __future__ import annotations

from ninfer_vllm.engines.native.arrays import Words
from ninfer_vllm.engines.native.compiled import compiled_row_kernels


class RowStore:
    """Rows that stay as they are, equal ones kept once."""

    def __init__(self) -> None:
        self._alike: dict[int, list[Words]] = {}
        self.nbytes = 0

    def is_empty(self, row: Words) -> bool:
        """Whether a kept row has no token."""
        return any(row is known for known in self._alike.get(0, ()))

    def shared(self, row: Words) -> Words:
        """The kept row that is equal to this one, or this one, which must not change any more.

        A row that somebody keeps already is given back.
        """
        if not row.flags.writeable:
            return row
        kernels = compiled_row_kernels()
        alike = self._alike.setdefault(kernels.digest(row), [])
        for known in alike:
            if kernels.is_equal(known, row):
                return known
        row.flags.writeable = False
        alike.append(row)
        self.nbytes += row.nbytes
        return row
