"""Bounded numbers satisfy their bounds as written and as parsed, and nothing that does is missing."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from math import inf, isinf, nextafter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.grammar.ir import Regular, Rule
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.support.oracles.decimals import is_writable, satisfies

KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
EDGES = (0, 1, -1, 0.1, 0.3, 100, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, 1e22, 5e-324, -5e-324, 1e308)

limits = st.one_of(
    st.sampled_from(EDGES),
    st.integers(-20, 20),
    st.integers(-(10**19), 10**19),
    st.integers(-4000, 4000).map(lambda number: number / 8),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10),
)
digits = st.text("0123456789", min_size=1, max_size=17)
spellings = st.one_of(
    st.builds(lambda sign, number: f"{sign}{number}", st.sampled_from(["", "-"]), st.integers(0, 10**19)),
    st.builds(
        lambda sign, whole, part: f"{sign}{whole}.{part}", st.sampled_from(["", "-"]), st.integers(0, 99), digits
    ),
    st.builds(
        lambda sign, first, part, exponent: f"{sign}{first}.{part}e{exponent}",
        st.sampled_from(["", "-"]),
        st.integers(1, 9),
        digits,
        st.integers(-330, 320),
    ),
)


@pytest.mark.contract("JST-6", "JSO-5")
@settings(max_examples=120, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYWORDS), limits, min_size=1, max_size=2), st.lists(spellings, max_size=25))
def test_bounded_number_is_exact(bounds: dict[str, int | float], others: list[str]) -> None:
    texts = [*others, *(text for bound in bounds.values() for text in near(bound))]
    try:
        grammar = lower_json_schema(json.dumps({"type": "number", **bounds}), JsonOptions())
    except ConstraintError:
        assert [text for text in texts if is_writable(text) and satisfies(text, bounds)] == []
        return
    start = grammar.rules[grammar.root]
    assert isinstance(start, Rule)
    number = grammar.rules[start.name]
    assert isinstance(number, Regular)
    for text in texts:
        if number.automaton.accepts(text):
            assert satisfies(text, bounds), text
        elif is_writable(text) and satisfies(text, bounds):
            # A zero is written without a sign where nothing below it is allowed.
            assert (text[0], Fraction(text)) == ("-", 0), text


def near(bound: float) -> list[str]:
    """Spellings of a bound, of its neighbours in binary64 and in the seventeenth digit."""
    value = float(bound)
    found = [str(bound + step) for step in (-1, 0, 1)] if isinstance(bound, int) else []
    for number in (nextafter(value, -inf), value, nextafter(value, inf)):
        if not isinf(number):
            found += [repr(number), f"{number:.16e}", f"{number:.3e}", format(Decimal(repr(number)), "f")]
    mantissa, exponent = f"{value:.16e}".split("e")
    for step in range(-3, 4):
        numeral = str(int(mantissa.lstrip("-").replace(".", "")) + step)
        if len(numeral) == 17:
            found.append(f"{'-' * (value < 0)}{numeral[0]}.{numeral[1:]}e{int(exponent)}")
    return found


@pytest.mark.contract("JST-6")
@pytest.mark.parametrize("type_name", ["integer", "number"])
@settings(max_examples=60, deadline=None)
@given(bounds=st.dictionaries(st.sampled_from(KEYWORDS), limits, min_size=1, max_size=2))
def test_integers_obey_the_bounds(type_name: str, bounds: dict[str, int | float]) -> None:
    whole = [int(bound) + step for bound in bounds.values() for step in range(-2, 3) if abs(bound) < 2**63 - 9]
    inside = [number for number in whole if satisfies(str(number), bounds)]
    try:
        grammar = lower_json_schema(json.dumps({"type": type_name, **bounds}), JsonOptions())
    except ConstraintError:
        assert inside == []
        return
    number = next(rule for rule in grammar.rules.values() if isinstance(rule, Regular))
    assert [one for one in inside if not number.automaton.accepts(str(one))] == []
    exact = {keyword: Fraction(repr(bound)) for keyword, bound in bounds.items()}
    for one in whole:
        if number.automaton.accepts(str(one)):
            assert all(_is_inside(one, keyword, bound) for keyword, bound in exact.items())


def _is_inside(number: int, keyword: str, bound: Fraction) -> bool:
    return {
        "minimum": number >= bound,
        "maximum": number <= bound,
        "exclusiveMinimum": number > bound,
        "exclusiveMaximum": number < bound,
    }[keyword]
