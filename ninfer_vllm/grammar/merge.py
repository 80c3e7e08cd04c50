"""Rules that say the same made one, so that what is written twice is no ambiguity.

Theory of operation. Rules are visited after those they refer to, and their expressions are numbered: equal ones have
one number, names of rules that were found equal included. Rules that refer to themselves are told apart by name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from ninfer_vllm.grammar.checks import postorder
from ninfer_vllm.grammar.ir import Alternation, Expr, Grammar, Regular, Repeat, Rule, Sequence, walk


def merged(grammar: Grammar) -> Grammar:
    """The same language, where no two rules have the same body and no alternative stands twice beside itself."""
    merger = _Merger()
    rules = {name: merger.body(name, body) for name, body in needed_first(grammar)}
    kept = {name: body for name, body in rules.items() if merger.names[name] == name}
    root = grammar.root
    return Grammar({root: rules[root], **{name: kept[name] for name in grammar.rules if name in kept}}, root)


class _Merger:
    """Numbers expressions and names rules."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """Each rule met with the first one that is equal to it."""
        self._numbers: dict[Hashable, int] = {}
        self._number_of: dict[int, int] = {}
        self._built: dict[int, Expr] = {}
        self._rule_of: dict[int, str] = {}

    def body(self, name: str, body: Expr) -> Expr:
        """The body of a rule over merged ones."""
        for node in postorder(body, self._number_of):
            built = self._over_merged(node)
            key = self._key(built)
            number = self._numbers.setdefault(key, len(self._numbers))
            self._built[id(node)] = built
            self._number_of[id(node)] = self._number_of[id(built)] = number
            self._built.setdefault(id(built), built)
        self.names[name] = self._rule_of.setdefault(self._number_of[id(body)], name)
        return self._built[id(body)]

    def _over_merged(self, node: Expr) -> Expr:
        if isinstance(node, Rule):
            name = self.names.get(node.name, node.name)
            return node if name == node.name else Rule(name)
        if isinstance(node, Repeat):
            item = self._built[id(node.item)]
            return node if item is node.item else Repeat(item, node.minimum, node.maximum)
        if isinstance(node, Sequence | Alternation):
            items = tuple(self._built[id(item)] for item in node.items)
            if isinstance(node, Alternation):
                items = tuple({self._number_of[id(item)]: item for item in items}.values())
                if len(items) == 1:
                    return items[0]
            is_same = len(items) == len(node.items) and all(map(lambda one, other: one is other, items, node.items))
            return node if is_same else type(node)(items)
        return node

    def _key(self, node: Expr) -> Hashable:
        if isinstance(node, Sequence | Alternation):
            return type(node), tuple(self._number_of[id(item)] for item in node.items)
        if isinstance(node, Repeat):
            return Repeat, self._number_of[id(node.item)], node.minimum, node.maximum
        # To hash an automaton costs as much as to walk it.
        return (Regular, id(node.automaton)) if isinstance(node, Regular) else node


def needed_first(grammar: Grammar) -> Iterator[tuple[str, Expr]]:
    """The rules that the root needs, what is needed first where that can be; the root last."""
    met = {grammar.root}
    path = [(grammar.root, _referred(grammar.rules, grammar.root))]
    while path:
        name, referred = path[-1]
        below = next((other for other in referred if other not in met), None)
        if below is None:
            path.pop()
            yield name, grammar.rules[name]
        else:
            met.add(below)
            path.append((below, _referred(grammar.rules, below)))


def _referred(rules: Mapping[str, Expr], name: str) -> Iterator[str]:
    return (node.name for node in walk(rules[name]) if isinstance(node, Rule))
