"""Sets of bytes as 256-bit integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ByteSet:
    """A set of byte values; bit b of `bits` says whether byte b is a member."""

    bits: int

    def __post_init__(self) -> None:
        assert 0 <= self.bits < 1 << 256

    @classmethod
    def of(cls, values: Iterable[int]) -> ByteSet:
        """The set of the given byte values."""
        bits = 0
        for value in values:
            bits |= 1 << value
        return cls(bits)

    def __bool__(self) -> bool:
        return self.bits != 0

    def __contains__(self, value: int) -> bool:
        return bool(self.bits >> value & 1)

    def __iter__(self) -> Iterator[int]:
        return (value for value in range(256) if self.bits >> value & 1)
