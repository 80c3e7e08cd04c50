"""Shortest derivations: the least length of every expression, and a shortest text.

Theory of operation. Lengths are found by Knuth's generalisation of Dijkstra's algorithm: nodes are settled in the order
of their length, a sequence once all its items are, an alternation with its first item. The settling order decreases
strictly from an expression to the item it was settled by, so always stepping to the item that was settled first ends,
even through rules that derive themselves at no cost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.errors import LimitExceeded, Unsatisfiable
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
    walk,
)

SATURATED = 1 << 60
"""Lengths stop growing here: nested repeats would otherwise make numbers of unbounded size."""

TokenTerminal = Token | ExcludeToken
Spell = Callable[[TokenTerminal], bytes]


@dataclass(frozen=True, slots=True)
class Shortest:
    """The least length of every expression of one grammar, in bytes; a token terminal counts as one.

    An expression is known by identity; one that derives no finite text has no length. `ranks` is the settling order.
    """

    grammar: Grammar
    lengths: dict[int, int]
    ranks: dict[int, int]
    distances: dict[int, list[int | None]] = field(default_factory=dict)
    """By automaton identity: the least bytes from each state to acceptance."""

    def length(self, expr: Expr) -> int | None:
        """The length of the shortest text `expr` derives, or None where it derives none."""
        return self.lengths.get(id(expr))

    def rule(self, name: str) -> int | None:
        """The length of the shortest text a rule derives, or None where it derives none."""
        body = self.grammar.rules.get(name)
        return None if body is None else self.length(body)

    def first_settled(self, items: tuple[Expr, ...]) -> Expr:
        """The item that leads to a shortest text by ever earlier settled expressions."""
        return min((item for item in items if id(item) in self.ranks), key=lambda item: self.ranks[id(item)])


def shortest(grammar: Grammar) -> Shortest:
    """The least lengths of all expressions of a grammar; undefined rules derive nothing."""
    found = Shortest(grammar, {}, {})
    nodes, parents = dependents(grammar)
    queue: list[tuple[int, int]] = []
    missing = [0] * len(nodes)
    sums = [0] * len(nodes)
    for number, node in enumerate(nodes):
        missing[number] = len(node.items) if isinstance(node, Sequence) else 1
        length = _own_length(node, found.distances)
        if length is not None:
            heapq.heappush(queue, (length, number))
    while queue:
        length, number = heapq.heappop(queue)
        node = nodes[number]
        if id(node) in found.lengths:
            continue
        found.lengths[id(node)] = length
        found.ranks[id(node)] = len(found.ranks)
        for parent in parents[number]:
            missing[parent] -= 1
            sums[parent] = min(sums[parent] + length, SATURATED)
            total = _parent_length(nodes[parent], length, sums[parent], missing[parent])
            if total is not None:
                heapq.heappush(queue, (total, parent))
    return found


def shortest_text(grammar: Grammar, max_bytes: int, spell: Spell | None = None) -> bytes:
    """A shortest text of the grammar.

    Errors: Unsatisfiable where there is none; LimitExceeded where it is longer than `max_bytes`; ValueError where it
    needs a token terminal and `spell` is absent.
    """
    known = shortest(grammar)
    length = known.rule(grammar.root)
    if length is None:
        raise Unsatisfiable("the grammar derives no finite text")
    if length > max_bytes:
        raise LimitExceeded("text_bytes", max_bytes, length)
    text = bytearray()
    todo: list[Expr] = [grammar.rules[grammar.root]]
    while todo:
        node = todo.pop()
        if isinstance(node, Rule):
            todo.append(grammar.rules[node.name])
        elif isinstance(node, Sequence):
            todo.extend(reversed(node.items))
        elif isinstance(node, Alternation):
            todo.append(known.first_settled(node.items))
        elif isinstance(node, Repeat):
            # Copies that add no bytes are left out, so that the text's length bounds the work.
            todo.extend([node.item] * (node.minimum if known.lengths[id(node)] else 0))
        else:
            text += shortest_terminal(node, known, spell)
    return bytes(text)


def shortest_terminal(node: Expr, known: Shortest, spell: Spell | None) -> bytes:
    """A shortest text of a terminal."""
    if isinstance(node, Literal):
        return node.data
    if isinstance(node, Bytes):
        return bytes([next(iter(node.values))])
    if isinstance(node, Chars):
        return chr(node.chars.ranges[0][0]).encode()
    if isinstance(node, Regular):
        return finish(node.automaton, 0, known.distances[id(node.automaton)])
    assert isinstance(node, TokenTerminal)
    return spelled(node, spell)


def spelled(node: TokenTerminal, spell: Spell | None) -> bytes:
    """The bytes that stand for a token terminal."""
    if spell is None:
        raise ValueError("a grammar with token terminals needs a spelling")
    return spell(node)


def finish(automaton: Dfa, state: int, distances: list[int | None]) -> bytes:
    """A shortest text from a state to acceptance."""
    text = bytearray()
    while distances[state]:
        state, char = min(
            ((target, least(chars)) for chars, target in automaton.edges[state] if distances[target] is not None),
            key=lambda edge: (distances[edge[0]] or 0) + len(edge[1]),
        )
        text += char
    return bytes(text)


def least(chars: CharSet) -> bytes:
    """A shortest encoding of a character of a non-empty set: UTF-8 lengths grow with the code."""
    return chr(chars.ranges[0][0]).encode()


def distances_to_acceptance(automaton: Dfa) -> list[int | None]:
    """The least bytes from each state to an accepting one; None where there is no way."""
    incoming: list[list[tuple[int, int]]] = [[] for _ in automaton.edges]
    for state, edges in enumerate(automaton.edges):
        for chars, target in edges:
            if chars:
                incoming[target].append((state, len(least(chars))))
    distances: list[int | None] = [None] * len(automaton.edges)
    queue = [(0, state) for state in sorted(automaton.accepting)]
    while queue:
        distance, state = heapq.heappop(queue)
        if distances[state] is None:
            distances[state] = distance
            for source, cost in incoming[state]:
                heapq.heappush(queue, (distance + cost, source))
    return distances


def dependents(grammar: Grammar) -> tuple[list[Expr], list[list[int]]]:
    """All distinct expressions, and for each the expressions whose length depends on it, once an occurrence."""
    nodes = list({id(node): node for body in grammar.rules.values() for node in walk(body)}.values())
    number = {id(node): at for at, node in enumerate(nodes)}
    parents: list[list[int]] = [[] for _ in nodes]
    for at, node in enumerate(nodes):
        for child in children(node):
            parents[number[id(child)]].append(at)
        if isinstance(node, Rule) and node.name in grammar.rules:
            parents[number[id(grammar.rules[node.name])]].append(at)
    return nodes, parents


def _own_length(node: Expr, distances: dict[int, list[int | None]]) -> int | None:
    """The length that is known without the sub-expressions."""
    if isinstance(node, Literal):
        return len(node.data)
    if isinstance(node, Bytes):
        return 1 if node.values else None
    if isinstance(node, Chars):
        return len(least(node.chars)) if node.chars else None
    if isinstance(node, Regular):
        automaton = node.automaton
        if id(automaton) not in distances:
            distances[id(automaton)] = distances_to_acceptance(automaton)
        return distances[id(automaton)][0]
    if isinstance(node, Token):
        return 1 if node.ids else None
    if isinstance(node, ExcludeToken):
        return 1
    nothing_needed = (isinstance(node, Sequence) and not node.items) or (isinstance(node, Repeat) and not node.minimum)
    return 0 if nothing_needed else None


def _parent_length(parent: Expr, length: int, total: int, missing: int) -> int | None:
    """What a parent's length may be after one more of its sub-expressions was settled."""
    if isinstance(parent, Sequence):
        return None if missing else total
    if isinstance(parent, Repeat):
        return min(length * parent.minimum, SATURATED)
    return length
