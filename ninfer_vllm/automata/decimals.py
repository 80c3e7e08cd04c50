"""Decimals of 17 significant digits, and the nearest ones on either side of an exact value."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

SIGNIFICANT_DIGITS = 17
"""Digits from the first one that is not 0: enough to name every binary64 value."""


@dataclass(frozen=True, slots=True)
class Decimal17:
    """The value 0.d1 d2 … d17 × 10^exponent with d1 not 0; zero has no digits and exponent 0."""

    digits: tuple[int, ...]
    exponent: int

    @classmethod
    def of(cls, numeral: int, exponent: int) -> Decimal17:
        """The value `numeral` × 10^(exponent - 17), for a numeral of 17 digits."""
        assert len(str(numeral)) == SIGNIFICANT_DIGITS
        return cls(tuple(map(int, str(numeral))), exponent)

    @property
    def value(self) -> Fraction:
        """The exact value."""
        if not self.digits:
            return Fraction(0)
        return int("".join(map(str, self.digits))) * Fraction(10) ** (self.exponent - SIGNIFICANT_DIGITS)

    def digit(self, at: int) -> int:
        """The digit at an index from 0; zeros follow the last one."""
        return self.digits[at] if at < len(self.digits) else 0


ZERO = Decimal17((), 0)


def at_least(value: Fraction, *, is_strict: bool) -> Decimal17:
    """The least decimal that is not below a value of 0 or more, or that is above it where `is_strict`.

    A strict limit of 0 has no least decimal above it and is not allowed.
    """
    if value == 0 and not is_strict:
        return ZERO
    numeral, exponent, is_exact = _scaled(value)
    numeral += not is_exact or is_strict
    if numeral == 10**SIGNIFICANT_DIGITS:
        return Decimal17.of(numeral // 10, exponent + 1)
    return Decimal17.of(numeral, exponent)


def at_most(value: Fraction, *, is_strict: bool) -> Decimal17:
    """The greatest decimal that is not above a value of 0 or more, or that is below it where `is_strict`."""
    if value == 0 and not is_strict:
        return ZERO
    numeral, exponent, is_exact = _scaled(value)
    numeral -= is_exact and is_strict
    if numeral < 10 ** (SIGNIFICANT_DIGITS - 1):
        return Decimal17.of(10**SIGNIFICANT_DIGITS - 1, exponent - 1)
    return Decimal17.of(numeral, exponent)


def _scaled(value: Fraction) -> tuple[int, int, bool]:
    """The first 17 digits, the exponent, and whether no further digit follows."""
    assert value > 0
    exponent = len(str(value.numerator)) - len(str(value.denominator)) + 1
    while value < Fraction(10) ** (exponent - 1):
        exponent -= 1
    scaled = value / Fraction(10) ** (exponent - SIGNIFICANT_DIGITS)
    return scaled.numerator // scaled.denominator, exponent, scaled.denominator == 1
