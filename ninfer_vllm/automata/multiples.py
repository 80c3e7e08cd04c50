"""Automata of plain decimals that are multiples of a decimal, or are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from ninfer_vllm.automata.algebra import explore, minimise
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.expressions import fullmatch_dfa
from ninfer_vllm.automata.integers import CACHED_INTERVALS, DIGITS, MINUS
from ninfer_vllm.automata.numbers import POINT
from ninfer_vllm.automata.work import remembered, uncounted
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.limits import MULTIPLE_OF, MULTIPLE_STATES

SAFE_DIGITS = 15
"""Significant digits up to which different decimals parse to different binary64 values."""


@dataclass(frozen=True, slots=True)
class _State:
    """What was read: nothing or a sign, digits, digits and a point, digits behind the point."""

    part: str
    residue: int = 0
    """Of the digits up to the last place of the divisor."""
    places: int = 0
    """Digits behind the point, up to those that the divisor has."""
    is_broken: bool = False
    """Whether a digit that is not 0 stands beyond them."""


@remembered(CACHED_INTERVALS)
def multiples(divisor: Fraction, *, is_negated: bool, with_point: bool) -> Dfa:
    """The plain decimals, with a point or without, that are multiples of a decimal; the others where `is_negated`.

    Errors: LimitExceeded beyond `MULTIPLE_OF`, and beyond `MULTIPLE_STATES` where the automaton is known to have more.
    """
    num_places = 0
    while (divisor * 10**num_places).denominator != 1:
        num_places += 1
    numerator = int(divisor * 10**num_places)

    if numerator > MULTIPLE_OF:
        raise LimitExceeded("multiple_of", MULTIPLE_OF, numerator)
    if _prime_to_ten(numerator) > MULTIPLE_STATES:
        raise LimitExceeded("multiple_states", MULTIPLE_STATES, _prime_to_ten(numerator))

    def successors(state: _State) -> Iterator[tuple[CharSet, _State]]:
        if state.part == "start":
            yield MINUS, replace(state, part="sign")
        if state.part == "digits" and with_point:
            yield POINT, replace(state, part="point")
        for value, digit in enumerate(DIGITS):
            yield digit, _after(state, value, numerator, num_places)

    def accepts(state: _State) -> bool:
        if state.part != ("fraction" if with_point else "digits"):
            return False
        is_multiple = not state.is_broken and state.residue * 10 ** (num_places - state.places) % numerator == 0
        return is_multiple != is_negated

    return minimise(explore(_State("start"), successors, accepts))


def _prime_to_ten(numerator: int) -> int:
    """The part of a numerator that shares no factor with ten: its remainders all differ in what must follow them."""
    for factor in (2, 5):
        while numerator % factor == 0:
            numerator //= factor
    return numerator


def _after(state: _State, digit: int, numerator: int, num_places: int) -> _State:
    residue = (state.residue * 10 + digit) % numerator
    if state.part in ("start", "sign", "digits"):
        return _State("digits", residue)
    if state.places < num_places:
        return _State("fraction", residue, state.places + 1)
    return replace(state, part="fraction", is_broken=state.is_broken or digit > 0)


@uncounted
def plain_integers() -> Dfa:
    """The spellings of all integers."""
    return fullmatch_dfa("-?(?:0|[1-9][0-9]*)")


@uncounted
def short_decimals() -> Dfa:
    """The plain decimals with a point and at most `SAFE_DIGITS` significant digits."""
    wholes = "|".join(
        f"[1-9][0-9]{{{count - 1}}}\\.[0-9]{{1,{SAFE_DIGITS - count}}}" for count in range(1, SAFE_DIGITS)
    )
    parts = f"0\\.0{{0,{SAFE_DIGITS}}}[1-9][0-9]{{0,{SAFE_DIGITS - 1}}}|0\\.0{{1,{SAFE_DIGITS}}}"
    return fullmatch_dfa(f"-?(?:{wholes}|{parts})")


@uncounted
def broken_decimals() -> Dfa:
    """The decimals with a digit behind the point that is not 0."""
    return fullmatch_dfa("-?[0-9]+\\.[0-9]*[1-9][0-9]*")
