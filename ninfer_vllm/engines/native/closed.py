"""Repeated text that ends with a fixed byte, such as what stands inside quotes: the pieces that units are made of."""

from __future__ import annotations

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.engines.native.kinds import WIDE
from ninfer_vllm.grammar.ir import (
    Alternation,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Literal,
    Regular,
    Repeat,
    Rule,
    Sequence,
    Token,
    children,
)

MAX_NODES = 100
"""Expressions of a repeated item that is copied out of its rules: a character of a JSON string has a dozen."""


class ClosedForms:
    """Expressions of one grammar without references to rules, where they are small and not recursive."""

    def __init__(self, grammar: Grammar) -> None:
        self._rules = grammar.rules
        self._known: dict[int, Expr | None] = {}

    def wide_item(self, expr: Expr) -> Repeat | Regular | None:
        """The closed form of a repetition or automaton that reads free text; None for everything else."""
        for _ in range(MAX_NODES):
            if not isinstance(expr, Rule):
                break
            expr = self._rules[expr.name]
        if id(expr) not in self._known:
            self._known[id(expr)] = self._wide_item(expr)
        found = self._known[id(expr)]
        assert found is None or isinstance(found, Repeat | Regular)
        return found

    def _wide_item(self, expr: Expr) -> Expr | None:
        if isinstance(expr, Regular):
            return expr if has_wide_set(expr) else None
        if not isinstance(expr, Repeat) or expr.maximum in (0, 1):
            return None
        item = self._closed(expr.item, [MAX_NODES])
        return None if item is None or not _is_wide(item) else Repeat(item, expr.minimum, expr.maximum)

    def _closed(self, expr: Expr, left: list[int]) -> Expr | None:
        """A copy with the rules written out; recursion runs out of the nodes that are left."""
        left[0] -= 1
        if left[0] < 0 or isinstance(expr, Token | ExcludeToken):
            return None
        if isinstance(expr, Rule):
            return self._closed(self._rules[expr.name], left)
        items = [self._closed(child, left) for child in children(expr)]
        if None in items:
            return None
        closed = tuple(item for item in items if item is not None)
        if isinstance(expr, Sequence | Alternation):
            return type(expr)(closed)
        return Repeat(closed[0], expr.minimum, expr.maximum) if isinstance(expr, Repeat) else expr


def _is_wide(expr: Expr) -> bool:
    """Whether many different bytes may come somewhere in an expression."""
    if isinstance(expr, Chars):
        return is_wide(expr.chars)
    if isinstance(expr, Bytes):
        return expr.values.bits.bit_count() >= WIDE
    if isinstance(expr, Regular):
        return has_wide_set(expr)
    return not isinstance(expr, Literal) and any(map(_is_wide, children(expr)))


def has_wide_set(item: Regular) -> bool:
    """Whether many different characters may come somewhere in a text of the automaton."""
    return any(is_wide(chars) for edges in item.automaton.edges for chars, _ in edges)


def is_wide(chars: CharSet) -> bool:
    """Whether a set has many characters."""
    ranges = chars.ranges
    return ranges[-1][1] - ranges[0][0] >= WIDE - 1 and len(chars) >= WIDE


def flattened(expr: Repeat) -> tuple[Expr, int, int | None]:
    """A repetition of repetitions as one, where every count in between is reached.

    (x{1,50}){1,50}  ->  x{1,2500}        (x?){3}  ->  x{0,3}
    """
    item, minimum, maximum = expr.item, expr.minimum, expr.maximum
    while isinstance(item, Repeat):
        least, most = item.minimum, item.maximum
        exact = minimum == maximum
        if not exact and most is not None and minimum * most + 1 < (minimum + 1) * least:
            break
        if not exact and most is None and minimum == 0 and least > 1:
            break
        if maximum == 0 or most == 0:
            return item.item, 0, 0
        minimum, maximum = minimum * least, None if maximum is None or most is None else maximum * most
        item = item.item
    return item, minimum, maximum
