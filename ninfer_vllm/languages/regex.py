"""Regular expressions as grammars: the whole text must match (RGX-1)."""

from __future__ import annotations

from ninfer_vllm.automata import regex
from ninfer_vllm.errors import Unsatisfiable
from ninfer_vllm.grammar import build
from ninfer_vllm.grammar.ir import NOTHING, Expr, Grammar, Rule

ROOT = "root"
MAX_HEIGHT = 24
"""Levels of one rule's expression: what is deeper becomes a rule, so that no pass meets a deep tree."""

Built = tuple[Expr, int]
"""An expression and its height."""


def lower_regex(source: str) -> Grammar:
    """The language of the texts that the expression matches from start to end.

    Errors: InvalidRegex, LimitExceeded; Unsatisfiable where no text matches.
    """
    lowering = _Lowering()
    branches = [regex.fold(branch.node, lowering.lower)[0] for branch in regex.parse(source).branches]
    body = build.union(branches)
    if body == NOTHING:
        raise Unsatisfiable("the regular expression matches no text")
    return Grammar({ROOT: body, **lowering.rules}, ROOT)


class _Lowering:
    """Lowers one node at a time and collects the rules that keep expressions low."""

    def __init__(self) -> None:
        self.rules: dict[str, Expr] = {}

    def lower(self, node: regex.Node, below: tuple[Built, ...]) -> Built:
        """The expression of a node over those of its children."""
        expr = _expression(node, tuple(item for item, _ in below))
        height = 1 + max((level for _, level in below), default=0)
        if height < MAX_HEIGHT:
            return expr, height
        name = f"part{len(self.rules)}"
        self.rules[name] = expr
        return Rule(name), 1


def _expression(node: regex.Node, items: tuple[Expr, ...]) -> Expr:
    if isinstance(node, regex.CharClass):
        return build.one_of(node.chars)
    if isinstance(node, regex.Repeated):
        return build.repeat(items[0], node.minimum, node.maximum)
    return build.concat(items) if isinstance(node, regex.Concat) else build.union(items)
