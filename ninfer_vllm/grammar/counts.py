"""Nested and adjacent repetitions of one thing become one repetition: the same language, nothing left to guess.

`(a{1,50}){1,50}` splits `aaa` in many ways, and an engine follows them all; `a{1,2500}` is read in one.
"""

from __future__ import annotations

from collections.abc import Iterable

from ninfer_vllm.grammar.checks import postorder
from ninfer_vllm.grammar.ir import Alternation, Bytes, Chars, Expr, Grammar, Literal, Repeat, Rule, Sequence
from ninfer_vllm.limits import REPEAT_BOUND

Counted = tuple[Expr, int, int | None]
"""An expression and how often it stands in a row, at least and at most."""


def merge_counts(grammar: Grammar) -> Grammar:
    """The same language with merged repetitions."""
    memo: dict[int, Expr] = {}
    for body in grammar.rules.values():
        for node in postorder(body, memo):
            memo[id(node)] = _merged(node, memo)
    return Grammar({name: memo[id(body)] for name, body in grammar.rules.items()}, grammar.root)


def _merged(node: Expr, memo: dict[int, Expr]) -> Expr:
    """An expression over its already merged sub-expressions."""
    if isinstance(node, Repeat) and node.maximum != 0:
        return _nested(memo[id(node.item)], node)
    if isinstance(node, Sequence):
        return _adjacent([memo[id(item)] for item in node.items])
    if isinstance(node, Alternation):
        return Alternation(tuple(memo[id(item)] for item in node.items))
    return node


def _nested(item: Expr, outer: Repeat) -> Expr:
    # (x{a,b}){m,n}  ->  x{am,bn}  where no count in between is left out: none between x{ka,kb} and x{(k+1)a,(k+1)b}
    # for k = m, and then for no greater k.
    inner, least, most = _counted(item)
    reach = None if most is None or outer.maximum is None else most * outer.maximum
    if inner is item or not _is_gapless(least, most, outer) or max(least * outer.minimum, reach or 0) > REPEAT_BOUND:
        return _repeat(item, outer.minimum, outer.maximum)
    return _repeat(inner, least * outer.minimum, reach)


def _is_gapless(least: int, most: int | None, outer: Repeat) -> bool:
    if outer.minimum == outer.maximum:
        return True
    if most is None:
        return outer.minimum > 0 or least <= 1
    return (outer.minimum + 1) * least <= outer.minimum * most + 1


def _adjacent(items: Iterable[Expr]) -> Expr:
    # x{a,b} x{c,d}  ->  x{a+c,b+d}
    merged: list[Counted] = []
    for item in items:
        counted = _counted(item)
        joined = _joined(merged[-1], counted) if merged else None
        if joined is None:
            merged.append(counted)
        else:
            merged[-1] = joined
    kept = tuple(_repeat(*counted) for counted in merged)
    return kept[0] if len(kept) == 1 else Sequence(kept)


def _joined(left: Counted, right: Counted) -> Counted | None:
    """Both in a row as one, or None where they are different things or no repetitions at all."""
    if left[1:] == right[1:] == (1, 1) or not _equal(left[0], right[0]):
        return None
    least = left[1] + right[1]
    most = None if left[2] is None or right[2] is None else left[2] + right[2]
    return None if max(least, most or 0) > REPEAT_BOUND else (left[0], least, most)


def _counted(item: Expr) -> Counted:
    # x{0,0} stays a thing of its own: nothing times anything would be unbounded.
    if isinstance(item, Repeat) and item.maximum != 0:
        return item.item, item.minimum, item.maximum
    return item, 1, 1


def _repeat(item: Expr, least: int, most: int | None) -> Expr:
    return item if (least, most) == (1, 1) else Repeat(item, least, most)


def _equal(left: Expr, right: Expr) -> bool:
    """Whether two expressions are the same; only flat ones are compared by value, so that depth is no danger."""
    return left is right or (isinstance(left, Bytes | Chars | Literal | Rule) and left == right)
