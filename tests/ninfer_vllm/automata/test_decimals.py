"""The nearest decimals of 17 digits lie on the asked side, and none lies between."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.automata.decimals import ZERO, Decimal17, at_least, at_most

positive = st.one_of(
    st.floats(min_value=5e-324, allow_infinity=False, allow_nan=False).map(Fraction),
    st.fractions(min_value=Fraction(1, 10**30), max_value=10**30),
    st.integers(1, 10**20).map(Fraction),
    st.integers(-30, 30).map(lambda exponent: Fraction(10) ** exponent),
)


@given(positive)
def test_decimals_enclose_a_value_as_directed_rounding_does(value: Fraction) -> None:
    assert at_least(value, is_strict=False).value == _rounded(value, ROUND_CEILING)
    assert at_most(value, is_strict=False).value == _rounded(value, ROUND_FLOOR)


@given(positive)
def test_strict_limits_leave_out_the_value_itself(value: Fraction) -> None:
    lowest, highest = at_least(value, is_strict=True).value, at_most(value, is_strict=True).value
    assert highest < value < lowest
    assert at_least(highest, is_strict=True).value in (lowest, value)
    assert at_most(lowest, is_strict=True).value in (highest, value)


def test_zero_has_no_digits() -> None:
    assert at_least(Fraction(0), is_strict=False) == at_most(Fraction(0), is_strict=False) == ZERO == Decimal17((), 0)
    assert ZERO.value == 0


def _rounded(value: Fraction, rounding: str) -> Fraction:
    context = Context(prec=17, rounding=rounding, Emin=-(10**6), Emax=10**6)
    return Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
