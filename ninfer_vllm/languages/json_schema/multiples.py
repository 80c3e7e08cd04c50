"""What facts say about numbers: intervals around excluded values, and multiples (JST-6, JSX-6)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ninfer_vllm.errors import UnsupportedSchema
from ninfer_vllm.languages.json_schema.literals import INT64_MAX, INT64_MIN
from ninfer_vllm.languages.json_schema.located import located
from ninfer_vllm.languages.json_schema.numbers import decimal_automaton, integer_automaton, integers, numbers
from ninfer_vllm.languages.json_schema.schema import Bound, Divisor, Node
from ninfer_vllm.languages.json_schema.shapes import Decimals, Integers, Numbers, Shape


def number_shapes(facts: list[Node], *, is_whole: bool, is_broken: bool, pointer: str) -> list[Shape] | str:
    """The numbers of some facts, integers where `is_whole` and others where `is_broken`; or why there are none.

    Errors: UnsupportedSchema at `pointer` where numbers are allowed, but none that can be written; LimitExceeded.
    """
    bounds = tuple(bound for fact in facts for bound in fact.bounds)
    divisors = tuple(dict.fromkeys(divisor for fact in facts for divisor in fact.divisors))
    excluded = {item.value for fact in facts for item in fact.excluded if isinstance(item.value, Fraction)}
    shapes: list[Shape] = []
    refusal: UnsupportedSchema | None = None
    for segment in _segments(bounds, sorted(excluded)):
        try:
            with located(divisors[0].pointer if divisors else pointer):
                shapes += _in_segment(segment, divisors, pointer, is_whole=is_whole, is_broken=is_broken)
        except UnsupportedSchema as error:
            refusal = error
    if shapes:
        return shapes
    if refusal is not None:
        raise refusal
    return "no number lies between the bounds" + (", is a multiple as asked" if divisors else "")


def _segments(bounds: tuple[Bound, ...], excluded: list[Fraction]) -> Iterator[tuple[Bound, ...]]:
    """The bounds, once between each two neighbours of the excluded values."""
    lowers = [None, *(_strict(value, is_lower=True) for value in excluded)]
    uppers = [*(_strict(value, is_lower=False) for value in excluded), None]
    for lower, upper in zip(lowers, uppers, strict=True):
        yield (*bounds, *(bound for bound in (lower, upper) if bound is not None))


def _strict(value: Fraction, *, is_lower: bool) -> Bound:
    return Bound(value, is_lower, is_strict=True, is_integer=value.denominator == 1)


def _in_segment(
    bounds: tuple[Bound, ...], divisors: tuple[Divisor, ...], pointer: str, *, is_whole: bool, is_broken: bool
) -> Iterator[Shape]:
    if not is_broken:
        interval = integers(bounds, pointer)
        if interval is not None:
            yield from _multiples_of(interval, divisors)
        return
    interval_of_all = numbers(bounds, pointer)
    if interval_of_all is None:
        return
    if is_whole and not divisors:
        yield interval_of_all
        return
    if is_whole:
        yield from _multiples_of(Integers(*interval_of_all.integers), divisors)
    yield from _decimals(interval_of_all, divisors, is_whole=is_whole)


def _multiples_of(interval: Integers, divisors: tuple[Divisor, ...]) -> Iterator[Integers]:
    shape = Integers(interval.low, interval.high, divisors)
    is_any = (interval.low, interval.high) == (INT64_MIN, INT64_MAX) and not divisors
    if is_any or not integer_automaton(shape).is_empty:
        yield shape


def _decimals(interval: Numbers, divisors: tuple[Divisor, ...], *, is_whole: bool) -> Iterator[Decimals]:
    shape = Decimals(interval.low, interval.high, divisors, is_whole)
    if not decimal_automaton(shape).is_empty:
        yield shape
