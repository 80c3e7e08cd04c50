"""Grammars renamed, so that several of them stand in one without sharing a rule by accident."""

from __future__ import annotations

from ninfer_vllm.grammar.ir import Alternation, Expr, Grammar, Repeat, Rule, Sequence, children


def prefixed(grammar: Grammar, prefix: str) -> Grammar:
    """The grammar with `prefix` before every rule's name."""
    rules = {prefix + name: _renamed(body, prefix) for name, body in grammar.rules.items()}
    return Grammar(rules, prefix + grammar.root)


def _renamed(expr: Expr, prefix: str) -> Expr:
    """Children before parents; iterative, so depth is no danger."""
    values: list[Expr] = []
    todo: list[tuple[Expr, bool]] = [(expr, False)]
    while todo:
        node, expanded = todo.pop()
        below = children(node)
        if not expanded and below:
            todo.append((node, True))
            todo.extend((child, False) for child in reversed(below))
            continue
        first = len(values) - len(below)
        values[first:] = [_rebuilt(node, tuple(values[first:]), prefix)]
    return values[0]


def _rebuilt(node: Expr, below: tuple[Expr, ...], prefix: str) -> Expr:
    if isinstance(node, Rule):
        return Rule(prefix + node.name)
    if isinstance(node, Sequence):
        return Sequence(below)
    if isinstance(node, Alternation):
        return Alternation(below)
    return Repeat(below[0], node.minimum, node.maximum) if isinstance(node, Repeat) else node
