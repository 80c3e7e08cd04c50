"""Choices as grammars: a tree of the literals' shared prefixes, so that a long list stays fast and unambiguous."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import TypeGuard

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.errors import InvalidChoice
from ninfer_vllm.grammar.ir import EMPTY_TEXT, Alternation, Chars, Expr, Grammar, Literal, Rule, sequence, text
from ninfer_vllm.limits import CHOICE_LITERALS, CHOICE_TOTAL_CHARS

ROOT = "root"
MAX_HEIGHT = 12
"""Branchings of one rule's expression: what is deeper becomes a rule, so that no pass meets a deep tree."""


def lower_choice(literals: Items[str]) -> Grammar:
    """The language of exactly the given texts; duplicates are dropped, order carries no weight.

    Errors: InvalidChoice for an empty list, an element that is not Unicode text, or a list over the limits.
    """
    _check(literals)
    return _Tree(sorted(set(literals))).grammar()


def _check(literals: Items[str]) -> None:
    if not literals:
        raise InvalidChoice("the list is empty")
    if len(literals) > CHOICE_LITERALS:
        raise InvalidChoice(f"at most {CHOICE_LITERALS} texts, given {len(literals)}")
    total = 0
    for index, literal in enumerate(literals):
        if not isinstance(literal, str):
            raise InvalidChoice(f"expected a string, got {type(literal).__name__}", index)
        total += len(literal)
        if total > CHOICE_TOTAL_CHARS:
            raise InvalidChoice(f"at most {CHOICE_TOTAL_CHARS} characters together", index)
        if any("\ud800" <= char <= "\udfff" for char in literal):
            raise InvalidChoice("the string holds an unpaired surrogate", index)


@dataclass(slots=True)
class _Branching:
    """The literals `first` to `last`, which agree in their first `depth` characters; built once its children are."""

    first: int
    last: int
    depth: int
    parent: _Branching | None
    label: str
    """The characters between the parent's depth and this one's."""
    built: list[Expr]
    """Finished children, last first; of the root, the whole."""
    height: int = 0


class _Tree:
    """Sorted, distinct literals; a run of neighbours that share a prefix is one branching."""

    def __init__(self, literals: list[str]) -> None:
        self._literals = literals
        self._rules: dict[str, Expr] = {}

    def grammar(self) -> Grammar:
        """The finished grammar; children are built before their parents."""
        found = self._branchings()
        for node in reversed(found):
            self._finish(node)
        return Grammar({ROOT: found[0].built[0], **self._rules}, ROOT)

    def _branchings(self) -> list[_Branching]:
        root = self._branching(0, len(self._literals) - 1, 0, None)
        found = [root]
        for node in found:
            found.extend(self._children(node))
        return found

    def _branching(self, first: int, last: int, depth: int, parent: _Branching | None) -> _Branching:
        label = self._literals[first][depth:]
        if first != last:
            label = _shared_start(label, self._literals[last][depth:])
        return _Branching(first, last, depth + len(label), parent, label, [])

    def _children(self, node: _Branching) -> list[_Branching]:
        """One branching a next character, in order; none where the literals are one."""
        found = []
        at = node.first + (len(self._literals[node.first]) == node.depth)
        while at <= node.last:
            char = self._literals[at][node.depth]
            end = bisect_right(self._literals, char, at, node.last + 1, key=lambda literal: literal[node.depth])
            found.append(self._branching(at, end - 1, node.depth, node))
            at = end
        return found

    def _finish(self, node: _Branching) -> None:
        """Give the parent the expression of this branching's literals, behind the parent's depth."""
        ends_here = len(self._literals[node.first]) == node.depth
        expr = _one_of(node.built[::-1], ends_here=ends_here)
        height = node.height + 1
        if height > MAX_HEIGHT and node.parent is not None:
            name = f"part{len(self._rules)}"
            self._rules[name] = expr
            expr, height = Rule(name), 1
        expr = sequence(text(node.label), expr)
        if node.parent is None:
            node.built = [expr]
        else:
            node.parent.built.append(expr)
            node.parent.height = max(node.parent.height, height)


def _shared_start(left: str, right: str) -> str:
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return left[:at]
    return min(left, right, key=len)


def _one_of(items: list[Expr], *, ends_here: bool) -> Expr:
    """One of the items, or the empty text if a literal ends here; single characters are joined to one set."""
    singles = [item.data.decode() for item in items if _is_single(item)]
    others = [item for item in items if not _is_single(item)]
    if singles:
        others.insert(0, Chars(CharSet.from_chars(singles)) if len(singles) > 1 else text(singles[0]))
    if ends_here:
        others.insert(0, EMPTY_TEXT)
    return others[0] if len(others) == 1 else Alternation(tuple(others))


def _is_single(item: Expr) -> TypeGuard[Literal]:
    return isinstance(item, Literal) and len(item.data.decode()) == 1
