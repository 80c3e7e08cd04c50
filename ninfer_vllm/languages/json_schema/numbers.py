"""Bounds of integers and numbers, and the rules of their spellings (JST-6, JSO-5).

A written decimal and the binary64 value that parsing makes of it may lie on different sides of a bound. Bounds are
therefore tightened until every decimal inside is right both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import ceil, floor, inf, isinf, nextafter, prod
from struct import pack, unpack
from sys import float_info

from ninfer_vllm.automata.algebra import NO_TEXT, intersection, union
from ninfer_vllm.automata.decimals import at_least, at_most
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.integers import CACHED_INTERVALS, integer_interval, negated
from ninfer_vllm.automata.multiples import broken_decimals, multiples, plain_integers, short_decimals
from ninfer_vllm.automata.numbers import magnitude_interval
from ninfer_vllm.automata.work import remembered
from ninfer_vllm.errors import LimitExceeded, UnsupportedSchema
from ninfer_vllm.languages.json_schema.literals import INT64_MAX, INT64_MIN
from ninfer_vllm.languages.json_schema.schema import Bound, Divisor
from ninfer_vllm.languages.json_schema.shapes import Decimals, Integers, Numbers
from ninfer_vllm.limits import MULTIPLE_STATES

GREATEST_DECIMAL = Fraction(17976931348623158 * 10**292)
"""The greatest decimal of 17 significant digits that parses to a finite binary64 value."""

ANY_NUMBER = Numbers(-GREATEST_DECIMAL, GREATEST_DECIMAL, (INT64_MIN, INT64_MAX))

Limit = tuple[Fraction, bool]
"""A lower limit, and whether it lies outside itself; the greater pair is the stronger limit."""


def integers(bounds: Iterable[Bound], pointer: str) -> Integers | None:
    """The 64-bit integers inside the bounds; None where no integer is.

    Errors: UnsupportedSchema at `pointer` where only integers beyond 64 bits are.
    """
    low, high = _limits(bounds, _as_written_and_parsed)
    first = None if low is None else _least_integer(low)
    last = None if high is None else -_least_integer(high)
    if first is not None and last is not None and first > last:
        return None
    kept = Integers(
        INT64_MIN if first is None else max(first, INT64_MIN), INT64_MAX if last is None else min(last, INT64_MAX)
    )
    if kept.low > kept.high:
        raise UnsupportedSchema(
            pointer,
            "minimum",
            "the bounds leave only integers beyond the signed 64-bit range: ask for a string of digits",
        )
    return kept


def numbers(bounds: Iterable[Bound], pointer: str) -> Numbers | None:
    """The numbers that satisfy the bounds as written and as parsed; None where no number lies inside.

    Errors: UnsupportedSchema at `pointer` where numbers lie inside, but none that can be written.
    """
    bounds = tuple(bounds)
    if _is_empty(*_limits(bounds, _as_written)):
        return None
    low, high = _limits(bounds, _tightened)
    kept = Numbers(
        _least_decimal(low),
        -_least_decimal(high),
        (
            INT64_MIN if low is None else max(_least_integer(low), INT64_MIN),
            INT64_MAX if high is None else min(-_least_integer(high), INT64_MAX),
        ),
    )
    if kept.low > kept.high and kept.integers[0] > kept.integers[1]:
        raise UnsupportedSchema(
            pointer, "minimum", "no number of 17 significant digits lies between the bounds: widen them"
        )
    return kept


@remembered(CACHED_INTERVALS)
def integer_automaton(shape: Integers) -> Dfa:
    """The spellings of integers: plain decimals."""
    interval = integer_interval(shape.low, shape.high)
    return interval if not shape.divisors else intersection(interval, _multiples(shape.divisors, with_point=False))


@remembered(CACHED_INTERVALS)
def decimal_automaton(shape: Decimals) -> Dfa:
    """The spellings of plain decimals with a point."""
    interval = number_automaton(Numbers(shape.low, shape.high, (0, -1)))
    points = _multiples(shape.divisors, with_point=True)
    if not shape.is_whole:
        points = intersection(points, broken_decimals())
    return intersection(interval, points)


def interval_automaton(shape: Integers | Numbers | Decimals) -> Dfa:
    """The spellings of the numbers of a shape."""
    if isinstance(shape, Integers):
        return integer_automaton(shape)
    return number_automaton(shape) if isinstance(shape, Numbers) else decimal_automaton(shape)


def _multiples(divisors: tuple[Divisor, ...], *, with_point: bool) -> Dfa:
    """The plain decimals, with a point or without, that all the divisors admit."""
    automata = [multiples(one.value, is_negated=one.is_negated, with_point=with_point) for one in divisors]
    num_states = prod(len(automaton.edges) for automaton in automata)
    if num_states > MULTIPLE_STATES:
        raise LimitExceeded("multiple_states", MULTIPLE_STATES, num_states)
    return reduce(intersection, automata, short_decimals() if with_point else plain_integers())


@remembered(CACHED_INTERVALS)
def number_automaton(shape: Numbers) -> Dfa:
    """The spellings of numbers: plain integers, plain decimals and scientific notation."""
    result = integer_interval(*shape.integers)
    if shape.high >= 0 and shape.high >= shape.low:
        result = union(result, _magnitudes(max(shape.low, Fraction(0)), shape.high))
    if shape.low < 0 and shape.high >= shape.low:
        result = union(result, negated(_magnitudes(max(-shape.high, Fraction(0)), -shape.low)))
    return result


def _magnitudes(low: Fraction, high: Fraction) -> Dfa:
    if low > high:
        return NO_TEXT
    return magnitude_interval(at_least(low, is_strict=False), at_most(high, is_strict=False))


def _limits(bounds: Iterable[Bound], read: Callable[[Bound], Limit]) -> tuple[Limit | None, Limit | None]:
    """The strongest lower limit, and the strongest upper one with its sign turned; None without one."""
    bounds = tuple(bounds)
    low = max((read(bound) for bound in bounds if bound.is_lower), default=None)
    high = max((read(replace(bound, value=-bound.value)) for bound in bounds if not bound.is_lower), default=None)
    return low, high


def _is_empty(low: Limit | None, high: Limit | None) -> bool:
    if low is None or high is None:
        return False
    return low[0] > -high[0] or (low[0] == -high[0] and (low[1] or high[1]))


def _as_written(bound: Bound) -> Limit:
    return bound.value, bound.is_strict


def _as_written_and_parsed(bound: Bound) -> Limit:
    """The limit of integers, which parsers keep exactly, by the bound as written and as parsed."""
    parsed = bound.value if bound.is_integer else Fraction(float(bound.value))
    return max(bound.value, parsed), bound.is_strict


def _tightened(bound: Bound) -> Limit:
    """The decimals above a lower bound whose parsed value is above it too.

    A bound that is a plain integer is compared exactly and as binary64; any other is itself parsed to binary64.
    """
    if abs(bound.value) > float_info.max:
        return _as_written(bound)
    least = _least_float(bound)
    before = nextafter(least, -inf)
    if isinf(least):
        return GREATEST_DECIMAL, True
    if isinf(before):
        return _as_written(bound)
    # A decimal parses to `least` or more from the middle to its lower neighbour on; a tie goes to the even one.
    middle = (Fraction(least) + Fraction(before)) / 2
    return max(_as_written(bound), (middle, not _is_even(least)))


def _least_float(bound: Bound) -> float:
    """The least binary64 value on the right side of a lower bound."""
    nearest = least = float(bound.value)
    while bound.is_integer and least < bound.value:
        least = nextafter(least, inf)
    while bound.is_strict and (least <= nearest or (bound.is_integer and least <= bound.value)):
        least = nextafter(least, inf)
    return least


def _is_even(number: float) -> bool:
    bits: int = unpack("<q", pack("<d", number))[0]
    return bits % 2 == 0


def _least_decimal(limit: Limit | None) -> Fraction:
    """The least decimal of 17 digits inside a lower limit."""
    if limit is None or limit[0] < -GREATEST_DECIMAL:
        return -GREATEST_DECIMAL
    value, is_strict = limit
    if value >= 0:
        return at_least(value, is_strict=is_strict).value
    return -at_most(-value, is_strict=is_strict).value


def _least_integer(limit: Limit) -> int:
    value, is_strict = limit
    return floor(value) + 1 if is_strict else ceil(value)
