"""Random members of a grammar's language."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.errors import Unsatisfiable
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
)
from ninfer_vllm.grammar.shortest import Shortest, Spell, finish, least, shortest, spelled

CONTINUE = 0.7
"""Chance of one more copy of a repetition, or of one more character of a regular terminal that may end."""


def sample(grammar: Grammar, rng: random.Random, max_length_hint: int, spell: Spell | None = None) -> bytes:
    """A random text of the language, about `max_length_hint` bytes or as short as the choices made by then allow.

    Errors: Unsatisfiable where there is none; ValueError where a token terminal is met and `spell` is absent.
    """
    known = shortest(grammar)
    if known.rule(grammar.root) is None:
        raise Unsatisfiable("the grammar derives no finite text")
    return _Derivation(known, rng, max_length_hint, spell).run()


@dataclass(slots=True)
class _Derivation:
    """One leftmost derivation.

    It is free while the text and the least lengths of what is pending stay within the hint; then it steers: every
    choice leads to a shortest text, which always ends.
    """

    known: Shortest
    rng: random.Random
    hint: int
    spell: Spell | None
    text: bytearray = field(default_factory=bytearray)
    pending: list[tuple[Expr, int]] = field(default_factory=list)
    """What is still to derive, the next last: an expression and how often."""
    owed: int = 0
    """The least bytes of `pending`."""
    steps: int = 0

    def run(self) -> bytes:
        self._push(self.known.grammar.rules[self.known.grammar.root], 1)
        while self.pending:
            node, times = self.pending.pop()
            self.owed -= self._least(node) * times
            if times > 1:
                self._push(node, times - 1)
            self.steps += 1
            self._derive(node)
        return bytes(self.text)

    @property
    def _steers(self) -> bool:
        # Steps count as well: rules that derive themselves at no cost add no bytes.
        return len(self.text) + self.owed >= self.hint or self.steps > 16 * (self.hint + 16)

    def _least(self, node: Expr) -> int:
        return self.known.lengths[id(node)]

    def _push(self, node: Expr, times: int) -> None:
        if times:
            self.pending.append((node, times))
            self.owed += self._least(node) * times

    def _derive(self, node: Expr) -> None:
        if isinstance(node, Rule):
            self._push(self.known.grammar.rules[node.name], 1)
        elif isinstance(node, Sequence):
            for item in reversed(node.items):
                self._push(item, 1)
        elif isinstance(node, Alternation):
            self._push(self._chosen(node.items), 1)
        elif isinstance(node, Repeat):
            self._repeat(node)
        elif isinstance(node, Literal):
            self.text += node.data
        elif isinstance(node, Bytes):
            self.text.append(self.rng.choice(list(node.values)))
        elif isinstance(node, Chars):
            self.text += least(node.chars) if self._steers else _character(node.chars, self.rng)
        elif isinstance(node, Regular):
            self._regular(node.automaton)
        else:
            self.text += spelled(node, self.spell)

    def _chosen(self, items: tuple[Expr, ...]) -> Expr:
        if self._steers:
            return self.known.first_settled(items)
        return self.rng.choice([item for item in items if self.known.length(item) is not None])

    def _repeat(self, node: Repeat) -> None:
        times = node.minimum
        if self.known.length(node.item) is None:
            return
        cost = max(self._least(node.item), 1)
        room = self.hint - len(self.text) - self.owed - times * cost
        while room > 0 and (node.maximum is None or times < node.maximum) and self.rng.random() < CONTINUE:
            times += 1
            room -= cost
        # Copies that need no bytes may be left out, whatever the minimum.
        self._push(node.item, times if self._least(node.item) else min(times, self.hint + 1))

    def _regular(self, automaton: Dfa) -> None:
        distances = self.known.distances[id(automaton)]
        state = 0
        while True:
            edges = [edge for edge in automaton.edges[state] if edge[0] and distances[edge[1]] is not None]
            ends = state in automaton.accepting
            if not edges or self._steers or (ends and self.rng.random() >= CONTINUE):
                break
            chars, state = self.rng.choice(edges)
            self.text += _character(chars, self.rng)
        self.text += finish(automaton, state, distances)


def _character(chars: CharSet, rng: random.Random) -> bytes:
    low, high = rng.choice(chars.ranges)
    return chr(rng.choice((low, high, rng.randint(low, high)))).encode()
