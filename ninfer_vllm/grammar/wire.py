"""A grammar as bytes: how it travels from the process that lowered it to the one that runs it.

The form is a table of distinct expressions, children before parents, so that shared parts travel once and neither side
recurses. Decoding checks every number it reads.
"""

from __future__ import annotations

import collections.abc
from typing import TypeVar

import msgspec

from ninfer_vllm.automata.byteset import ByteSet
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.errors import CompileFailed, LimitExceeded
from ninfer_vllm.grammar.checks import postorder
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
)
from ninfer_vllm.limits import REPEAT_BOUND

VERSION = 1
"""Changes with every change of the form; both processes run the same release."""


class _Record(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    pass


class _Literal(_Record, tag=0, frozen=True):
    data: bytes


class _Bytes(_Record, tag=1, frozen=True):
    bits: bytes


class _Chars(_Record, tag=2, frozen=True):
    chars: int


class _Regular(_Record, tag=3, frozen=True):
    automaton: int


class _Token(_Record, tag=4, frozen=True):
    ids: tuple[int, ...]


class _ExcludeToken(_Record, tag=5, frozen=True):
    ids: tuple[int, ...]


class _Rule(_Record, tag=6, frozen=True):
    name: str


class _Sequence(_Record, tag=7, frozen=True):
    items: tuple[int, ...]


class _Alternation(_Record, tag=8, frozen=True):
    items: tuple[int, ...]


class _Repeat(_Record, tag=9, frozen=True):
    item: int
    minimum: int
    maximum: int | None


_T = TypeVar("_T")
_Node = _Literal | _Bytes | _Chars | _Regular | _Token | _ExcludeToken | _Rule | _Sequence | _Alternation | _Repeat


class _Automaton(_Record, frozen=True):
    edges: tuple[tuple[tuple[int, int], ...], ...]
    """For each state: (character set, target state)."""
    accepting: tuple[int, ...]


class _Table(_Record, frozen=True):
    version: int
    root: str
    rules: dict[str, int]
    nodes: tuple[_Node, ...]
    charsets: tuple[tuple[tuple[int, int], ...], ...]
    automata: tuple[_Automaton, ...]


def encode(grammar: Grammar) -> bytes:
    """The bytes of a grammar; Errors: LimitExceeded where a repeat count passes its bound."""
    return _Encoder().encode(grammar)


def decode(data: bytes) -> Grammar:
    """The grammar of `encode`'s bytes; Errors: CompileFailed where they are damaged or of another version."""
    try:
        table = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise CompileFailed(f"encoded grammar: {error}") from error
    if table.version != VERSION:
        raise CompileFailed(f"encoded grammar: version {table.version}, expected {VERSION}")
    try:
        return _Decoder(table).grammar()
    except (IndexError, AssertionError, ValueError) as error:
        raise CompileFailed(f"encoded grammar: a number is out of range ({error})") from error


_DECODER = msgspec.msgpack.Decoder(_Table)


class _Encoder:
    """Numbers expressions, character sets and automata; equal ones share a number."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._nodes: dict[_Node, int] = {}
        self._charsets: dict[CharSet, int] = {}
        self._automata: dict[int, int] = {}
        self._automaton_records: list[_Automaton] = []

    def encode(self, grammar: Grammar) -> bytes:
        rules = {name: self._number(body) for name, body in grammar.rules.items()}
        charsets = tuple(chars.ranges for chars in self._charsets)
        automata = tuple(self._automaton_records)
        return msgspec.msgpack.encode(_Table(VERSION, grammar.root, rules, tuple(self._nodes), charsets, automata))

    def _number(self, body: Expr) -> int:
        for node in postorder(body, self._numbers):
            record = self._record(node)
            self._numbers[id(node)] = self._nodes.setdefault(record, len(self._nodes))
        return self._numbers[id(body)]

    def _record(self, node: Expr) -> _Node:
        match node:
            case Literal(data):
                return _Literal(data)
            case Bytes(values):
                return _Bytes(values.bits.to_bytes(32, "little"))
            case Chars(chars):
                return _Chars(self._charset(chars))
            case Regular(automaton):
                return _Regular(self._automaton(automaton))
            case Token(ids):
                return _Token(tuple(sorted(ids)))
            case ExcludeToken(ids):
                return _ExcludeToken(tuple(sorted(ids)))
            case Rule(name):
                return _Rule(name)
            case Sequence(items):
                return _Sequence(tuple(self._numbers[id(item)] for item in items))
            case Alternation(items):
                return _Alternation(tuple(self._numbers[id(item)] for item in items))
            case Repeat(item, minimum, maximum):
                highest = max(minimum, maximum or 0)
                if highest > REPEAT_BOUND:
                    raise LimitExceeded("repeat_bound", REPEAT_BOUND, highest)
                return _Repeat(self._numbers[id(item)], minimum, maximum)

    def _charset(self, chars: CharSet) -> int:
        return self._charsets.setdefault(chars, len(self._charsets))

    def _automaton(self, automaton: Dfa) -> int:
        number = self._automata.get(id(automaton))
        if number is None:
            number = self._automata[id(automaton)] = len(self._automaton_records)
            edges = tuple(tuple((self._charset(chars), target) for chars, target in state) for state in automaton.edges)
            self._automaton_records.append(_Automaton(edges, tuple(sorted(automaton.accepting))))
        return number


class _Decoder:
    """Builds the values of a table, checking that every number points to what is there."""

    def __init__(self, table: _Table) -> None:
        self._table = table
        self._charsets = [CharSet.from_ranges(ranges) for ranges in table.charsets]
        self._automata = [self._automaton(record) for record in table.automata]
        self._nodes: list[Expr] = []

    def grammar(self) -> Grammar:
        for record in self._table.nodes:
            self._nodes.append(self._node(record))
        return Grammar({name: _at(self._nodes, body) for name, body in self._table.rules.items()}, self._table.root)

    def _node(self, record: _Node) -> Expr:
        match record:
            case _Literal():
                return Literal(record.data)
            case _Bytes():
                return Bytes(ByteSet(int.from_bytes(record.bits, "little")))
            case _Chars():
                return Chars(_at(self._charsets, record.chars))
            case _Regular():
                return Regular(_at(self._automata, record.automaton))
            case _Token():
                return Token(frozenset(record.ids))
            case _ExcludeToken():
                return ExcludeToken(frozenset(record.ids))
            case _Rule():
                return Rule(record.name)
            case _Sequence():
                return Sequence(tuple(_at(self._nodes, item) for item in record.items))
            case _Alternation():
                return Alternation(tuple(_at(self._nodes, item) for item in record.items))
            case _Repeat():
                return Repeat(_at(self._nodes, record.item), record.minimum, record.maximum)

    def _automaton(self, record: _Automaton) -> Dfa:
        states = range(len(record.edges))
        edges = tuple(
            tuple((_at(self._charsets, chars), _at(states, target)) for chars, target in state)
            for state in record.edges
        )
        _at(states, 0)
        return Dfa(edges, frozenset(_at(states, state) for state in record.accepting))


def _at(values: collections.abc.Sequence[_T], number: int) -> _T:
    if not 0 <= number < len(values):
        raise IndexError(number)
    return values[number]
