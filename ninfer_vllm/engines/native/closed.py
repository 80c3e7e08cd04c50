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
    Regular,
    Repeat,
    Rule,
    Sequence,
    Token,
    children,
)

MAX_NODES = 40
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
        is_wide, is_closed = self._looked_at(expr.item)
        if not is_wide:
            return None
        return expr if is_closed else Repeat(self._closed(expr.item), expr.minimum, expr.maximum)

    def _looked_at(self, item: Expr) -> tuple[bool, bool]:
        """Whether an item is small, without token terminals, and free text; and whether it has no rules, either."""
        is_wide, is_closed = False, True
        todo = [item]
        for num_nodes, expr in enumerate(todo):  # grows while it is read; recursion runs out of nodes
            if num_nodes >= MAX_NODES or isinstance(expr, Token | ExcludeToken):
                return False, False
            if isinstance(expr, Rule):
                is_closed = False
                todo.append(self._rules[expr.name])
            else:
                is_wide = is_wide or _is_wide(expr)
                todo.extend(children(expr))
        return is_wide, is_closed

    def _closed(self, expr: Expr) -> Expr:
        """A copy with the rules written out, of what is known to be small."""
        if isinstance(expr, Rule):
            return self._closed(self._rules[expr.name])
        if isinstance(expr, Sequence | Alternation):
            return type(expr)(tuple(map(self._closed, expr.items)))
        return Repeat(self._closed(expr.item), expr.minimum, expr.maximum) if isinstance(expr, Repeat) else expr


def _is_wide(expr: Expr) -> bool:
    """Whether many different bytes may come at a terminal."""
    if isinstance(expr, Chars):
        return is_wide(expr.chars)
    if isinstance(expr, Bytes):
        return expr.values.bits.bit_count() >= WIDE
    return isinstance(expr, Regular) and has_wide_set(expr)


def has_wide_set(item: Regular) -> bool:
    """Whether many different characters may come somewhere in a text of the automaton."""
    return any(map(is_wide, item.automaton.sets))


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
