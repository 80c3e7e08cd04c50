"""What must be known of a grammar before it runs: what may be empty, what is productive, what is left-recursive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from ninfer_vllm.errors import UnsupportedByEngine
from ninfer_vllm.grammar.ir import (
    Alternation,
    Bytes,
    Chars,
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
from ninfer_vllm.grammar.merge import needed_first

Fact = tuple[bool, bool]
"""Whether an expression derives the empty text, and whether it derives any."""

NO_FACT: Fact = (False, False)


class Facts:
    """The facts of one grammar's expressions, by identity; a least fixed point over its rules."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._of_rule: dict[str, Fact] = {}
        self._of: dict[int, Fact] = {}
        self.is_productive = True
        """Whether every expression derives some text, so that nothing needs pruning."""
        self._solve()

    def nullable(self, expr: Expr) -> bool:
        """Whether an expression of the grammar derives the empty text."""
        return self._of[id(expr)][0]

    def nullable_rule(self, name: str) -> bool:
        """Whether a rule derives the empty text."""
        return self._of_rule.get(name, NO_FACT)[0]

    def _solve(self) -> None:
        """Visits rules, those that wait for a changed one again; every pass over a body only gains facts.

        What others need is visited first, so that only rules that refer to themselves are visited again.
        """
        rules = self._grammar.rules
        waiting: dict[str, set[str]] = {}
        todo = deque(dict.fromkeys((*(name for name, _ in needed_first(self._grammar)), *rules)))
        queued = set(todo)
        while todo:
            name = todo.popleft()
            queued.discard(name)
            body = rules[name]
            named: list[str] = []
            self._visit(body, named)
            for other in named:
                waiting.setdefault(other, set()).add(name)
            if self._of[id(body)] != self._of_rule.get(name, NO_FACT):
                self._of_rule[name] = self._of[id(body)]
                again = waiting.get(name, set()) - queued
                todo.extend(again)
                queued.update(again)
        self.is_productive = all(productive for _, productive in self._of.values())

    def _visit(self, body: Expr, named: list[str]) -> None:
        """Set the facts of an expression and all below it, children first."""
        order = [body]
        for node in order:  # grows while it is read
            if isinstance(node, Rule):
                named.append(node.name)
            else:
                order.extend(children(node))
        for node in reversed(order):
            self._of[id(node)] = self._fact(node)

    def _fact(self, node: Expr) -> Fact:
        if isinstance(node, Literal):
            return not node.data, True
        if isinstance(node, Rule):
            return self._of_rule.get(node.name, NO_FACT)
        if isinstance(node, Repeat):
            nullable, productive = self._of[id(node.item)]
            return node.minimum == 0 or nullable, node.minimum == 0 or productive
        if isinstance(node, Sequence):
            facts = [self._of[id(item)] for item in node.items]
            return all(nullable for nullable, _ in facts), all(productive for _, productive in facts)
        if isinstance(node, Alternation):
            facts = [self._of[id(item)] for item in node.items]
            return any(nullable for nullable, _ in facts), any(productive for _, productive in facts)
        return _terminal_fact(node)


def check_left_recursion(grammar: Grammar, facts: Facts) -> None:
    """Refuse a grammar with a rule that can start with itself.

    Errors: UnsupportedByEngine.
    """
    settled: set[str] = set()
    for start in grammar.rules:
        path: dict[str, Iterator[str]] = {}
        todo = [start]
        while todo:
            name = todo.pop()
            if name not in settled:
                path[name] = _left_corners(grammar.rules, name, facts)
            todo.extend(_next_corner(path, settled))


def _next_corner(path: dict[str, Iterator[str]], settled: set[str]) -> Iterable[str]:
    """The next unvisited rule below the path; rules without any are taken off."""
    while path:
        name, corners = next(reversed(path.items()))
        for corner in corners:
            if corner in path:
                raise UnsupportedByEngine("native", f"left recursion (rule {corner!r})")
            if corner not in settled:
                return (corner,)
        settled.add(name)
        del path[name]
    return ()


def _left_corners(rules: Mapping[str, Expr], name: str, facts: Facts) -> Iterator[str]:
    """Rules that can stand at the start of what a rule derives."""
    todo = [rules[name]]
    while todo:
        node = todo.pop()
        if isinstance(node, Rule):
            yield node.name
        elif isinstance(node, Sequence):
            for item in node.items:
                todo.append(item)
                if not facts.nullable(item):
                    break
        else:
            todo.extend(children(node))


def _terminal_fact(node: Expr) -> Fact:
    if isinstance(node, Regular):
        return 0 in node.automaton.accepting, node.automaton.is_trim
    if isinstance(node, Bytes):
        return False, bool(node.values)
    if isinstance(node, Chars):
        return False, bool(node.chars)
    return False, not isinstance(node, Token) or bool(node.ids)
