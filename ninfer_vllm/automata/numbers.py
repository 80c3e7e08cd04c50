"""Automata of the JSON spellings whose decimal value lies in an interval.

Theory of operation. A magnitude is compared digit by digit with bounds of the form 0.b1 b2 … × 10^e. While digits are
read, the state keeps how they compare with each bound's digits; where the point and the exponent stand then decides.
Behind a point that fixes the value's size, the digits only matter for a bound of that size. An exponent is read into
the intervals that its remaining digits must hit, so that equal situations are equal states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ninfer_vllm.automata.algebra import explore, minimise
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.decimals import SIGNIFICANT_DIGITS, Decimal17
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.integers import CACHED_INTERVALS, DIGITS, MINUS, compared
from ninfer_vllm.automata.work import remembered

FRACTION_ZEROS = 17
"""Zeros that may follow `0.`: smaller values are written with an exponent."""

EXPONENT_DIGITS = 3
LEAST_EXPONENT, GREATEST_EXPONENT = -324, 308
"""Exponents of binary64 in scientific notation, subnormal values included."""

FREE_EXPONENT = 99
"""Exponents that may follow any mantissa, where the interval is too wide for them to leave it."""

POINT = CharSet.from_chars(".")
EXPONENT_MARK = CharSet.from_chars("eE")
PLUS = CharSet.from_chars("+")


@remembered(CACHED_INTERVALS)
def magnitude_interval(low: Decimal17, high: Decimal17) -> Dfa:
    """The spellings without sign of the decimals from `low` to `high`, both inside.

    Plain decimals have at most 17 significant digits; scientific notation has one digit, not 0, before the point.
    Where the interval reaches from zero to 10^116, an exponent of at most two digits may follow any mantissa.
    """
    walk = _Walk(low, high)
    start: _State = _Start()
    return minimise(explore(start, walk.successors, walk.accepts))


@dataclass(frozen=True, slots=True)
class _Start:
    """Nothing read."""


@dataclass(frozen=True, slots=True)
class _Zero:
    """`0` (zeros is -1) or `0.` with so many zeros behind the point."""

    zeros: int


@dataclass(frozen=True, slots=True)
class _Mantissa:
    """Digits whose size is open: an exponent may follow, or more digits before the point."""

    num_digits: int
    to_low: int = 0
    to_high: int = 0
    place: int = 0
    """0 before the point, 1 just behind it, 2 in the fraction."""


@dataclass(frozen=True, slots=True)
class _Fraction:
    """Digits behind a point that fixes the size; a flag says that the digits still equal that bound's."""

    num_digits: int
    at_low: bool
    at_high: bool
    ends: bool
    """Whether a digit stands behind the point."""


@dataclass(frozen=True, slots=True)
class _Exponent:
    """Behind `e`; the exponent must lie between `low` and `high`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _ExponentDigits:
    """Inside an exponent: entry j is the interval that a suffix of j more digits must hit."""

    suffixes: tuple[tuple[int, int] | None, ...]
    begun: bool


_State = _Start | _Zero | _Mantissa | _Fraction | _Exponent | _ExponentDigits
_Edges = Iterator[tuple[CharSet, _State]]

FREE = _Exponent(-FREE_EXPONENT, FREE_EXPONENT)


@dataclass(frozen=True, slots=True)
class _Walk:
    """Reads a magnitude against the bounds of one interval."""

    low: Decimal17
    high: Decimal17

    def successors(self, state: _State) -> _Edges:
        if isinstance(state, _Start):
            yield DIGITS[0], _Zero(-1)
            yield from self._digits(_Mantissa(0), first=1)
        elif isinstance(state, _Zero):
            yield from self._after_zero(state)
        elif isinstance(state, _Mantissa):
            yield from self._after_mantissa(state)
        elif isinstance(state, _Fraction):
            yield from self._fraction_digits(state, first=0)
            if self._is_free and state.ends:
                yield EXPONENT_MARK, FREE
        elif isinstance(state, _Exponent):
            yield MINUS, _exponent(-state.high, -state.low)
            yield PLUS, _exponent(state.low, state.high)
            yield from _exponent_digits(_exponent(state.low, state.high))
        else:
            yield from _exponent_digits(state)

    def accepts(self, state: _State) -> bool:
        if isinstance(state, _Zero):
            return state.zeros != 0 and not self.low.digits
        if isinstance(state, _Mantissa):
            # Behind the point of a mantissa stands a fraction of one integer digit.
            return state.place != 1 and self._is_inside(state, 1 if state.place else state.num_digits)
        if isinstance(state, _Fraction):
            return state.ends and not (state.at_low and any(self.low.digits[state.num_digits :]))
        return isinstance(state, _ExponentDigits) and state.begun and state.suffixes[0] is not None

    @property
    def _is_free(self) -> bool:
        return not self.low.digits and self.high.exponent > SIGNIFICANT_DIGITS + FREE_EXPONENT

    def _after_zero(self, state: _Zero) -> _Edges:
        if state.zeros < 0:
            yield POINT, _Zero(0)
        else:
            if state.zeros < FRACTION_ZEROS:
                yield DIGITS[0], _Zero(state.zeros + 1)
            settled = self._settled(_Mantissa(0), -state.zeros)
            if settled is not None:
                yield from self._fraction_digits(settled, first=1)
        if self._is_free and state.zeros != 0:
            yield EXPONENT_MARK, FREE

    def _after_mantissa(self, state: _Mantissa) -> _Edges:
        yield from self._digits(state, first=0)
        if state.place == 0 and state.num_digits < SIGNIFICANT_DIGITS:
            settled = self._settled(state, state.num_digits)
            if state.num_digits == 1:
                yield POINT, replace(state, place=1)
            elif settled is not None:
                yield POINT, settled
        if state.place != 1:
            exponents = self._exponents(state) if state.place or state.num_digits == 1 else None
            if exponents is not None or self._is_free:
                yield EXPONENT_MARK, exponents or FREE

    def _digits(self, state: _Mantissa, first: int) -> _Edges:
        at = state.num_digits
        for digit in range(first, 10) if at < SIGNIFICANT_DIGITS else ():
            to_low = compared(state.to_low, digit, self.low.digit(at))
            to_high = compared(state.to_high, digit, self.high.digit(at))
            yield DIGITS[digit], _Mantissa(at + 1, to_low, to_high, 2 if state.place else 0)

    def _fraction_digits(self, state: _Fraction, first: int) -> _Edges:
        at = state.num_digits
        for digit in range(first, 10) if at < SIGNIFICANT_DIGITS else ():
            to_low = compared(0, digit, self.low.digit(at)) if state.at_low else 1
            to_high = compared(0, digit, self.high.digit(at)) if state.at_high else -1
            if to_low >= 0 and to_high <= 0:
                yield DIGITS[digit], _Fraction(at + 1, to_low == 0, to_high == 0, ends=True)

    def _settled(self, state: _Mantissa, size: int) -> _Fraction | None:
        """The state behind a point that fixes the decimal exponent at `size`; None where every value is outside."""
        to_low = (size, state.to_low) if self.low.digits else (self.low.exponent, 1)
        to_high = (size, state.to_high)
        if to_low < (self.low.exponent, 0) or to_high > (self.high.exponent, 0) or not self.high.digits:
            return None
        at_low, at_high = to_low == (self.low.exponent, 0), to_high == (self.high.exponent, 0)
        return _Fraction(state.num_digits, at_low, at_high, ends=False)

    def _is_inside(self, state: _Mantissa, size: int) -> bool:
        above = not self.low.digits or (size, self._order(state, self.low, state.to_low)) >= (self.low.exponent, 0)
        below = (size, self._order(state, self.high, state.to_high)) <= (self.high.exponent, 0)
        return above and below and bool(self.high.digits)

    def _order(self, state: _Mantissa, bound: Decimal17, order: int) -> int:
        """How the finished digits compare with a bound's: digits that are not written are 0."""
        return -1 if order == 0 and any(bound.digits[state.num_digits :]) else order

    def _exponents(self, state: _Mantissa) -> _Exponent | None:
        """The exponents that put a mantissa of one integer digit inside the interval."""
        low, high = LEAST_EXPONENT, GREATEST_EXPONENT
        if self.low.digits:
            low = max(low, self.low.exponent - 1 + (self._order(state, self.low, state.to_low) < 0))
        high = min(high, self.high.exponent - 1 - (self._order(state, self.high, state.to_high) > 0))
        return _Exponent(low, high) if low <= high and self.high.digits else None


def _exponent(low: int, high: int) -> _ExponentDigits:
    """The state before the digits of an exponent between `low` and `high`."""
    return _suffixes([(low, high)] * (EXPONENT_DIGITS + 1), begun=False)


def _exponent_digits(state: _ExponentDigits) -> _Edges:
    for digit in range(10):
        shifted = [
            None if interval is None else (interval[0] - digit * 10**at, interval[1] - digit * 10**at)
            for at, interval in enumerate(state.suffixes[1:])
        ]
        if shifted:
            yield DIGITS[digit], _suffixes(shifted, begun=True)


def _suffixes(intervals: list[tuple[int, int] | None], *, begun: bool) -> _ExponentDigits:
    return _ExponentDigits(tuple(_clipped(at, interval) for at, interval in enumerate(intervals)), begun)


def _clipped(num_digits: int, interval: tuple[int, int] | None) -> tuple[int, int] | None:
    if interval is None:
        return None
    low, high = max(interval[0], 0), min(interval[1], 10**num_digits - 1)
    return (low, high) if low <= high else None
