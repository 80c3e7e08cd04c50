"""From a grammar that is regular to an automaton over bytes (GDE-1, GDE-2).

Theory of operation. The expressions of a grammar are the one source language: every part is laid between two states of
a nondeterministic automaton after Thompson. A rule is laid anew behind every state that it must lead to, once for each;
so a rule that ends in itself becomes a loop, and a rule with itself in its middle would need a new copy inside every
copy, which is found on the way down and refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_vllm.automata.algebra import minimise
from ninfer_vllm.automata.bytedfa import BYTE_VALUES, ByteDfa
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.lazy import determinise
from ninfer_vllm.automata.nfa import Nfa, NfaBuilder
from ninfer_vllm.automata.utf8 import Fork, Forks, encoded
from ninfer_vllm.automata.work import budget
from ninfer_vllm.errors import UnsupportedByEngine
from ninfer_vllm.grammar.checks import count_nodes, prune
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
from ninfer_vllm.limits import GUIDE_STEPS

NAME = "guide"
BYTES = tuple(CharSet(((value, value),)) for value in range(BYTE_VALUES))


@dataclass(frozen=True, slots=True)
class _Call:
    """A rule laid behind a state, and the rule in whose body it stands."""

    name: str
    target: int
    caller: _Call | None


_Part = tuple[Expr, int, int, _Call | None]
"""An expression, the states it leads from and to, and the rule it belongs to."""


def byte_dfa(grammar: Grammar) -> ByteDfa:
    """The minimal automaton of a grammar whose language is regular.

    Errors: UnsupportedByEngine for recursion other than at the end of a rule, and for token terminals; Unsatisfiable
    where there is no text; LimitExceeded with the count.
    """
    count_nodes(grammar)
    with budget(GUIDE_STEPS):
        return ByteDfa.of(minimise(determinise(byte_nfa(prune(grammar)))))


def byte_nfa(grammar: Grammar) -> Nfa:
    """The automaton of a pruned grammar before it is made deterministic."""
    return _Laying(grammar).run()


class _Laying:
    """Lays the parts of one grammar; iterative, so depth is no danger."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._builder = NfaBuilder()
        self._todo: list[_Part] = []
        self._rules: dict[tuple[str, int], int] = {}
        self._all_forks = Forks()
        self._characters: dict[CharSet, Fork] = {}
        self._forks: dict[tuple[Fork, int], int] = {}
        self._automata: dict[int, Dfa] = {}

    def run(self) -> Nfa:
        """The finished automaton."""
        start, end = self._builder.state(), self._builder.state()
        self._call(self._grammar.root, start, end, None)
        while self._todo:
            node, source, target, call = self._todo.pop()
            if isinstance(node, Rule):
                self._call(node.name, source, target, call)
            elif isinstance(node, Alternation):
                self._todo.extend((item, source, target, call) for item in node.items)
            elif isinstance(node, Repeat):
                copies = self._builder.repeated(source, target, node.minimum, node.maximum)
                self._todo.extend((node.item, *ends, call) for ends in copies)
            elif isinstance(node, Sequence) and node.items:
                states = self._builder.chain(source, target, len(node.items))
                parts = zip(node.items, states, states[1:], strict=False)
                self._todo.extend((item, before, behind, call) for item, before, behind in parts)
            else:
                self._terminal(node, source, target)
        return self._builder.finish(start, end)

    def _call(self, name: str, source: int, target: int, caller: _Call | None) -> None:
        entry = self._rules.get((name, target))
        if entry is None:
            _require_regular(name, caller)
            entry = self._rules[name, target] = self._builder.state()
            self._todo.append((self._grammar.rules[name], entry, target, _Call(name, target, caller)))
        self._builder.link(source, entry)

    def _terminal(self, node: Expr, source: int, target: int) -> None:
        if isinstance(node, Literal):
            self._literal(node.data, source, target)
        elif isinstance(node, Bytes):
            self._builder.move(source, CharSet.from_ranges((value, value) for value in node.values), target)
        elif isinstance(node, Chars):
            if node.chars not in self._characters:
                self._characters[node.chars] = self._all_forks.before([(node.chars, 0)])
            self._branch(self._characters[node.chars], source, target)
        elif isinstance(node, Regular):
            self._automaton(node.automaton, source, target)
        elif isinstance(node, Sequence):
            self._builder.link(source, target)
        else:
            raise UnsupportedByEngine(NAME, "token terminals: it knows texts only")

    def _literal(self, data: bytes, source: int, target: int) -> None:
        if not data:
            self._builder.link(source, target)
            return
        states = self._builder.chain(source, target, len(data))
        for byte, before, behind in zip(data, states, states[1:], strict=False):
            self._builder.move(before, BYTES[byte], behind)

    def _branch(self, first: Fork, source: int, target: int) -> None:
        """Lay the bytes of a character; equal ends before the same target are laid once."""
        todo = [(first, source)]
        while todo:
            here, at = todo.pop()
            for low, high, below in here.branches:
                behind = target
                if isinstance(below, Fork):
                    if (below, target) not in self._forks:
                        self._forks[below, target] = self._builder.state()
                        todo.append((below, self._forks[below, target]))
                    behind = self._forks[below, target]
                self._builder.move(at, CharSet(((low, high),)), behind)

    def _automaton(self, automaton: Dfa, source: int, target: int) -> None:
        if id(automaton) not in self._automata:
            self._automata[id(automaton)] = encoded(automaton)
        over_bytes = self._automata[id(automaton)]
        states = [self._builder.state() for _ in over_bytes.edges]
        self._builder.link(source, states[0])
        for state, outgoing in zip(states, over_bytes.edges, strict=True):
            for codes, behind in outgoing:
                self._builder.move(state, codes, states[behind])
        for accepting in over_bytes.accepting:
            self._builder.link(states[accepting], target)


def _require_regular(name: str, caller: _Call | None) -> None:
    """Refuse a rule that stands inside itself with something still to come behind it."""
    call = caller
    while call is not None:
        # A call behind the same state would have been found laid already.
        if call.name == name:
            raise UnsupportedByEngine(NAME, f"recursion: rule {name!r} stands inside itself")
        call = call.caller
