"""A magnitude interval has exactly the spellings of the decimals inside it."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.decimals import at_least, at_most
from ninfer_vllm.automata.numbers import magnitude_interval
from tests.support.oracles.decimals import is_writable

GREATEST = Fraction(17976931348623158 * 10**292)
magnitudes = st.one_of(
    st.just(Fraction(0)),
    st.integers(0, 1200).map(lambda number: Fraction(number, 8)),
    st.floats(min_value=0, max_value=1e30).map(lambda number: Fraction(repr(number))),
    st.integers(-12, 12).map(lambda exponent: Fraction(10) ** exponent),
    st.just(GREATEST),
)
digits = st.text("0123456789", min_size=1, max_size=18)
texts = st.one_of(
    st.builds(lambda whole, part: f"{int(whole)}.{part}", digits, digits),
    st.builds(lambda zeros, part: f"0.{'0' * zeros}{part}", st.integers(0, 19), digits),
    st.builds(
        lambda first, part, exponent: f"{first}.{part}e{exponent}", st.integers(0, 9), digits, st.integers(-330, 330)
    ),
    st.builds(
        lambda first, mark, exponent: f"{first}{mark}{exponent}",
        st.integers(0, 9),
        st.sampled_from(["e", "E+", "e-", "E0", "e+00"]),
        st.integers(0, 99),
    ),
    st.integers(0, 10**18).map(str),
)


@pytest.mark.contract("JST-6", "JSX-11")
@settings(max_examples=150, deadline=None)
@given(magnitudes, magnitudes, st.lists(texts, min_size=5, max_size=30))
def test_magnitude_interval_accepts_what_lies_inside(one: Fraction, other: Fraction, spellings: list[str]) -> None:
    low, high = at_least(min(one, other), is_strict=False), at_most(max(one, other), is_strict=False)
    automaton = magnitude_interval(low, high)
    for text in (*spellings, *_of(low.value), *_of(high.value)):
        inside = low.value <= Fraction(text) <= high.value
        if automaton.accepts(text):
            assert inside, text
        elif inside and is_writable(text) and _num_digits(text) <= 17:
            pytest.fail(f"{text} lies inside")


@pytest.mark.contract("JSX-11")
def test_digits_are_bounded() -> None:
    automaton = magnitude_interval(at_least(Fraction(0), is_strict=False), at_most(GREATEST, is_strict=False))
    for text in (
        "1" * 18,
        "0." + "1" * 18,
        "1." + "1" * 17,
        "0." + "0" * 18 + "1",
        "1e0001",
        "1e309",
        "2e308",
        "1e-325",
    ):
        assert not automaton.accepts(text), text
    for text in ("1" * 17, "0." + "1" * 17, "1.7976931348623158e308", "12.5e3", "0.5E-7", "0e5", "5e-324", "1e05"):
        assert automaton.accepts(text), text


def test_automata_are_small() -> None:
    def num_states(low: str, high: str) -> int:
        bounds = at_least(Fraction(low), is_strict=False), at_most(Fraction(high), is_strict=False)
        return len(magnitude_interval(*bounds).edges)

    assert num_states("0", str(GREATEST)) < 150
    assert num_states("0", "1") < 100
    assert num_states("1", "5") < 50


def _of(value: Fraction) -> list[str]:
    """Spellings of a decimal and of its neighbours in the last place."""
    if value == 0:
        return ["0", "0.0", "0.00"]
    found = []
    decimal = at_least(value, is_strict=False)
    for step in (-1, 0, 1):
        numeral = str(int("".join(map(str, decimal.digits))) + step)
        if len(numeral) == 17:
            found.append(f"{numeral[0]}.{numeral[1:]}e{decimal.exponent - 1}")
            if 0 < decimal.exponent < 17:
                found.append(f"{numeral[: decimal.exponent]}.{numeral[decimal.exponent :]}")
    return found


def _num_digits(text: str) -> int:
    return len(re.split("[eE]", text)[0].replace(".", "").lstrip("0"))
