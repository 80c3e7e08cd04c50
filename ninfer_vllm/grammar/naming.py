"""Grammars renamed, so that several of them stand in one without sharing a rule by accident, and what they do share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from ninfer_vllm.grammar.ir import Alternation, Expr, Grammar, Regular, Repeat, Rule, Sequence, children, walk

SHARED_STATES = 256
"""States from which on an automaton that stands in several places gets a rule of its own."""


def prefixed(grammar: Grammar, prefix: str) -> Grammar:
    """The grammar with `prefix` before every rule's name."""

    def renamed(leaf: Expr) -> Expr:
        return Rule(prefix + leaf.name) if isinstance(leaf, Rule) else leaf

    rules = {prefix + name: _mapped(body, renamed) for name, body in grammar.rules.items()}
    return Grammar(rules, prefix + grammar.root)


def with_shared_texts(rules: Mapping[str, Expr], prefix: str) -> dict[str, Expr]:
    """The same rules, in which a large automaton that several of them hold stands once, in a rule named by `prefix`."""
    large = (node for body in rules.values() for node in walk(body) if _is_large(node))
    counts = Counter(id(node.automaton) for node in large if isinstance(node, Regular))
    added: dict[int, tuple[str, Regular]] = {}

    def referred(leaf: Expr) -> Expr:
        if not isinstance(leaf, Regular) or counts[id(leaf.automaton)] < 2:
            return leaf
        name, _ = added.setdefault(id(leaf.automaton), (f"{prefix}{len(added)}", leaf))
        return Rule(name)

    if max(counts.values(), default=0) < 2:
        return dict(rules)
    changed = {name: _mapped(body, referred) for name, body in rules.items()}
    return {**changed, **dict(added.values())}


def _is_large(node: Expr) -> bool:
    return isinstance(node, Regular) and len(node.automaton.edges) >= SHARED_STATES


def _mapped(expr: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
    """The expression with other leaves; children before parents, iterative, so depth is no danger."""
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
        values[first:] = [_rebuilt(node, tuple(values[first:])) if below else leaf(node)]
    return values[0]


def _rebuilt(node: Expr, below: tuple[Expr, ...]) -> Expr:
    if isinstance(node, Sequence):
        return Sequence(below)
    if isinstance(node, Alternation):
        return Alternation(below)
    assert isinstance(node, Repeat)
    return Repeat(below[0], node.minimum, node.maximum)
