"""Automata of the plain decimal spellings of the integers in an interval."""

from __future__ import annotations

from collections.abc import Iterator

from ninfer_vllm.automata.algebra import NO_TEXT, explore, minimise, union
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.work import remembered

DIGITS = tuple(CharSet.from_chars(str(digit)) for digit in range(10))
MINUS = CharSet.from_chars("-")

CACHED_INTERVALS = 256


@remembered(CACHED_INTERVALS)
def integer_interval(low: int, high: int) -> Dfa:
    """The spellings of the integers from `low` to `high`, of none where `high` is below: no leading zeros, no `-0`."""
    result = NO_TEXT
    if high >= max(low, 0):
        result = _naturals(max(low, 0), high)
    if low <= min(high, -1):
        result = union(result, negated(_naturals(max(-high, 1), -low)))
    return result


def negated(automaton: Dfa) -> Dfa:
    """The texts of an automaton behind a minus sign."""
    shifted = tuple(tuple((chars, target + 1) for chars, target in outgoing) for outgoing in automaton.edges)
    return Dfa((((MINUS, 1),), *shifted), frozenset(state + 1 for state in automaton.accepting))


def compared(order: int, digit: int, bound: int) -> int:
    """How a digit string compares with a bound's after one more digit: -1 below, 0 equal so far, 1 above."""
    return order or (digit > bound) - (digit < bound)


Comparison = tuple[int, int, int]
"""Digits read, and how they compare with those of the lower and of the upper bound."""


def _naturals(low: int, high: int) -> Dfa:
    low_digits, high_digits = list(map(int, str(low))), list(map(int, str(high)))
    zero: Comparison = (-1, 0, 0)

    def successors(state: Comparison) -> Iterator[tuple[CharSet, Comparison]]:
        at, to_low, to_high = state
        if at == -1 or at == len(high_digits):
            return
        if at == 0:
            yield DIGITS[0], zero
        for digit in range(int(at == 0), 10):
            bound = low_digits[at] if at < len(low_digits) else 0
            yield DIGITS[digit], (at + 1, compared(to_low, digit, bound), compared(to_high, digit, high_digits[at]))

    def accepts(state: Comparison) -> bool:
        if state == zero:
            return low == 0
        length, to_low, to_high = state
        return length > 0 and (length, to_low) >= (len(low_digits), 0) and (length, to_high) <= (len(high_digits), 0)

    return minimise(explore((0, 0, 0), successors, accepts))
