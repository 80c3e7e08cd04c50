"""A grammar as the text the xgrammar core reads, inside the subset that the core runs exactly and fast.

Found by comparing masks, acceptance and an independent recogniser over random grammars (xgrammar 0.2.8):

- The start rule must not be referred to, or masks lose tokens: the text has a fresh one.
- A rule that is nothing but a repetition of itself overflows the core's stack. `checks.prune` leaves none.
- The core's cache of rules, inside one grammar and across grammars, gives wrong masks for mutually recursive rules: its
  key reads an unfinished rule as "unknown". It stays off, so that equal rules are shared here, by their text.
- Counts wrap at 32 bits, `\\x` escapes take any number of digits, `Token()` without ids is a syntax error.
- Bytes that are no UTF-8 cannot be written.

What is fast: the core decides a token in advance where the rule that reads it also holds what follows. `(a | "b" c)*`
costs a check of every token at every step, `s ::= a s | "b" c s | ""` next to nothing (50 against 0.05 ms a mask inside
a JSON string). So repetitions are written as right recursion with the item's alternatives spelled out, and long counted
ones as counted blocks of such chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import Final

from ninfer_vllm.automata.charset import CharSet, Range
from ninfer_vllm.automata.dfa import Dfa, Edge
from ninfer_vllm.errors import LimitExceeded, UnsupportedByEngine
from ninfer_vllm.grammar.checks import postorder, recursive_rules
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
)
from ninfer_vllm.limits import REPEAT_BOUND
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

ROOT = "root"
"""The start rule of every text; nothing refers to it."""

EMPTY = '""'
NOTHING = "[]"
"""An empty class: matches nothing."""

IN_PLACE = 4
"""Counts up to here are left to the core where the item is one terminal: its states are as few and need no rule."""

BLOCK = 32
"""Items of one block of a counted repetition: longer than nearly all tokens, few enough to compile."""

SPELLED_OUT = 16
"""Alternatives of a repeated item that are spelled out; more of them stay a rule."""

WIDE = 256
"""Characters of an edge that makes its state dear to compile: most of the vocabulary begins with one of them."""

Terminal = Literal | Bytes | Chars | Token | ExcludeToken


def to_ebnf(grammar: Grammar, vocabulary: Vocabulary) -> str:
    """The text of a pruned grammar.

    Errors: UnsupportedByEngine where bytes are no UTF-8; LimitExceeded where a count passes its bound.
    """
    return _Printer(grammar, vocabulary).text()


class _Printer:
    """Writes each expression as alternatives of element sequences; what stands inside a sequence is one element.

    A composite element is a rule of its own, so that nothing nests in the text; equal ones are one rule.
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary) -> None:
        self._grammar = grammar
        self._vocabulary = vocabulary
        self._reserved = vocabulary.ids(TokenClass.CONTROL)
        self._recursive = recursive_rules(grammar)
        self._names = {name: f"r{number}" for number, name in enumerate(grammar.rules)}
        self._shared: dict[str, str] = {}
        self._lines: list[str] = []
        self._alternatives: dict[int, tuple[str, ...]] = {}
        self._repeated: dict[int, tuple[Expr, ...]] = {}
        self._automata: dict[int, str] = {}

    def text(self) -> str:
        """All rules, the fresh root first."""
        for name, body in self._grammar.rules.items():
            for node in postorder(body, self._alternatives, self._needs):
                self._alternatives[id(node)] = self._printed(node)
            self._lines.append(f"{self._names[name]} ::= {_either(self._alternatives[id(body)])}")
        return "\n".join((f"{ROOT} ::= {self._names[self._grammar.root]}", *self._lines)) + "\n"

    def _needs(self, node: Expr) -> tuple[Expr, ...]:
        """The expressions whose text an expression's text is made of; rules that recur are only named, so it ends."""
        if isinstance(node, Repeat):
            if id(node) not in self._repeated:
                self._repeated[id(node)] = self._spelled_out(node.item)
            return self._repeated[id(node)]
        return children(node)

    def _spelled_out(self, item: Expr) -> tuple[Expr, ...]:
        """The alternatives of a repeated item through rules that do not recur; too many of them stay the item."""
        found: dict[int, Expr] = {}
        todo = [item]
        while todo:
            node = self._followed(todo.pop())
            if id(node) in found:
                continue
            found[id(node)] = node
            if isinstance(node, Alternation):
                todo.extend(reversed(node.items))
            if len(found) + len(todo) > 2 * SPELLED_OUT:
                return (item,)
        return tuple(node for node in found.values() if not isinstance(node, Alternation)) or (item,)

    def _followed(self, node: Expr) -> Expr:
        while isinstance(node, Rule) and node.name not in self._recursive:
            node = self._grammar.rules[node.name]
        return node

    def _printed(self, node: Expr) -> tuple[str, ...]:
        """The alternatives of an expression whose needs are printed already."""
        if isinstance(node, Sequence):
            return (" ".join(map(self._element, node.items)) or EMPTY,)
        if isinstance(node, Alternation):
            return tuple(dict.fromkeys(body for item in node.items for body in self._branches(item))) or (NOTHING,)
        if isinstance(node, Repeat):
            return (self._repeat(node),)
        if isinstance(node, Regular):
            return (self._automaton(node.automaton),)
        if isinstance(node, Rule):
            followed = self._followed(node)
            return (self._terminal(followed) if isinstance(followed, Terminal) else self._names[node.name],)
        return (self._terminal(node),)

    def _branches(self, item: Expr) -> tuple[str, ...]:
        """The alternatives of an alternation's item, where few enough to be copied."""
        bodies = self._alternatives[id(item)]
        return bodies if len(bodies) <= SPELLED_OUT else (self._element(item),)

    def _element(self, node: Expr) -> str:
        bodies = self._alternatives[id(node)]
        return self._share(_either(bodies)) if isinstance(node, Sequence | Alternation) else bodies[0]

    def _terminal(self, node: Terminal) -> str:
        if isinstance(node, Literal):
            return _literal(node.data)
        if isinstance(node, Bytes):
            return _class(_ascii(node))
        if isinstance(node, Chars):
            return _class(node.chars)
        ids = self._domain(node.ids)
        if isinstance(node, Token):
            return f"Token({_numbers(ids)})" if ids else NOTHING
        return self._excluding({*self._reserved, *ids})

    def _excluding(self, ids: set[int]) -> str:
        if ids:
            return f"ExcludeToken({_numbers(ids)})"
        return f"Token({_numbers(self._vocabulary.ids(TokenClass.ORDINARY))})"

    def _domain(self, ids: Iterable[int]) -> set[int]:
        usable = (TokenClass.ORDINARY, TokenClass.CONTROL)
        return {token for token in ids if self._vocabulary.class_of(token) in usable}

    def _share(self, body: str) -> str:
        """The rule of a body; equal bodies are one rule."""
        name = self._shared.get(body)
        if name is None:
            name = self._shared[body] = f"e{len(self._shared)}"
            self._lines.append(f"{name} ::= {body}")
        return name

    def _automaton(self, automaton: Dfa) -> str:
        """Right-linear rules, one a state; what all wide edges to a state have in common is read by a shared rule."""
        if id(automaton) not in self._automata:
            self._automata[id(automaton)] = name = f"d{len(self._automata)}"
            common = _common(automaton)
            for state, edges in enumerate(automaton.edges):
                items = [item for edge in edges for item in self._edge(edge, name, common)]
                ends = [EMPTY] if state in automaton.accepting else []
                self._lines.append(f"{name}s{state} ::= {_either((*items, *ends))}")
        return f"{self._automata[id(automaton)]}s0"

    def _edge(self, edge: Edge, name: str, common: Mapping[int, CharSet]) -> list[str]:
        chars, target = edge
        shared = common.get(target)
        if shared is None or len(chars) < WIDE:
            return [f"{_class(chars)} {name}s{target}"]
        own = chars - shared
        return [self._share(f"{_class(shared)} {name}s{target}"), *([f"{_class(own)} {name}s{target}"] if own else [])]

    def _repeat(self, node: Repeat) -> str:
        highest = max(node.minimum, node.maximum or 0)
        if highest > REPEAT_BOUND:
            raise LimitExceeded("repeat_bound", REPEAT_BOUND, highest)
        parts = self._repeated[id(node)]
        items = [body for part in parts for body in self._branches(part)]
        if len(parts) == 1 and isinstance(parts[0], Bytes | Chars) and highest <= IN_PLACE:
            return f"{items[0]}{_bounds(node.minimum, node.maximum)}"
        return self._counted(items, node)

    def _counted(self, items: list[str], node: Repeat) -> str:
        rest = self._star(items) if node.maximum is None else self._at_most(items, node.maximum - node.minimum)
        return self._exactly(items, node.minimum, rest)

    def _star(self, items: list[str]) -> str:
        # The rule's own name is part of its body: it is reserved by a body that no other rule can have.
        body = f"{_either(items)} *"
        if body not in self._shared:
            name = self._shared[body] = f"e{len(self._shared)}"
            self._lines.append(f"{name} ::= {_either((*_before(items, name), EMPTY))}")
        return self._shared[body]

    def _at_most(self, items: list[str], count: int) -> str:
        """`(items){0,count}`; blocks, then a chain that can reach any count left open by them."""
        blocks = max(0, (count - BLOCK + 1) // BLOCK)
        chain = EMPTY
        for _ in range(count - blocks * BLOCK):
            chain = self._share(_either((*_before(items, chain), EMPTY)))
        if not blocks:
            return chain
        return self._share(f"{self._exactly(items, BLOCK, EMPTY)}{_bounds(0, blocks)} {chain}")

    def _exactly(self, items: list[str], count: int, rest: str) -> str:
        """`(items){count} rest`."""
        blocks = (count - 1) // BLOCK if count > BLOCK else 0
        chain = rest
        for _ in range(count - blocks * BLOCK):
            chain = self._share(_either(_before(items, chain)))
        if not blocks:
            return chain
        return self._share(f"{self._exactly(items, BLOCK, EMPTY)}{_bounds(blocks, blocks)} {chain}")


def _common(automaton: Dfa) -> dict[int, CharSet]:
    """For states with several different wide edges into them: the characters that are on all of these."""
    sources: dict[int, set[CharSet]] = {}
    for edges in automaton.edges:
        for chars, target in edges:
            if len(chars) >= WIDE:
                sources.setdefault(target, set()).add(chars)
    found = {target: reduce(and_, sets) for target, sets in sources.items() if len(sets) > 1}
    return {target: chars for target, chars in found.items() if len(chars) >= WIDE}


def _either(bodies: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(bodies)) or NOTHING


def _before(items: Iterable[str], rest: str) -> list[str]:
    """Each item followed by `rest`."""
    return [" ".join(part for part in (item, rest) if part != EMPTY) or EMPTY for item in items]


def _bounds(minimum: int, maximum: int | None) -> str:
    if (minimum, maximum) in _OPERATORS:
        return _OPERATORS[minimum, maximum]
    return f"{{{minimum},}}" if maximum is None else f"{{{minimum},{maximum}}}"


_OPERATORS: Final[dict[tuple[int, int | None], str]] = {(0, None): "*", (1, None): "+", (0, 1): "?", (1, 1): ""}


def _literal(data: bytes) -> str:
    try:
        value = data.decode()
    except UnicodeDecodeError as error:
        raise UnsupportedByEngine("xgrammar", "a literal that is no whole UTF-8") from error
    return f'"{"".join(_escaped(ord(char)) for char in value)}"'


def _class(chars: CharSet) -> str:
    return f"[{''.join(_range(bounds) for bounds in chars.ranges)}]"


def _range(bounds: Range) -> str:
    low, high = bounds
    return _escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}"


def _escaped(code: int) -> str:
    char = chr(code)
    if char.isascii() and char.isalnum():
        return char
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _ascii(node: Bytes) -> CharSet:
    if node.values.bits >> 128:
        raise UnsupportedByEngine("xgrammar", "a set of bytes beyond ASCII")
    return CharSet.from_ranges((value, value) for value in node.values)


def _numbers(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))
