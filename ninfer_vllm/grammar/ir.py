"""The one grammar representation every constraint language lowers to.

Terminals consume bytes or whole tokens. `Chars` stands for the UTF-8 encodings of a set of characters, so that
languages of text need no byte-level detail and counts count characters; an engine lowers it to bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ninfer_vllm.automata.byteset import ByteSet
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly these bytes; no bytes at all is the empty text."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Bytes:
    """One byte out of a set."""

    values: ByteSet


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set, in UTF-8."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Regular:
    """A text that an automaton over characters accepts, in UTF-8."""

    automaton: Dfa


@dataclass(frozen=True, slots=True)
class Token:
    """One token whose id is in `ids`; never matched by spelling."""

    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class ExcludeToken:
    """One ordinary token whose id is not in `ids`."""

    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Rule:
    """What the rule of this name derives."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """All items in order; no item is the empty text."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of the items; no item is the empty language."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`item` at least `minimum` and at most `maximum` times; None is without bound."""

    item: Expr
    minimum: int
    maximum: int | None

    def __post_init__(self) -> None:
        assert self.minimum >= 0
        assert self.maximum is None or self.maximum >= self.minimum


Expr = Literal | Bytes | Chars | Regular | Token | ExcludeToken | Rule | Sequence | Alternation | Repeat

EMPTY_TEXT = Literal(b"")
NOTHING = Alternation(())


@dataclass(frozen=True, slots=True)
class Grammar:
    """Named rules and the name of the first one; a frozen value."""

    rules: Mapping[str, Expr]
    root: str


def text(value: str) -> Literal:
    """The literal of a text, in UTF-8."""
    return Literal(value.encode())


def sequence(*items: Expr) -> Expr:
    """`items` in order, nested sequences flattened and empty texts dropped."""
    flat: list[Expr] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Sequence) else (item,))
    kept = tuple(item for item in flat if item != EMPTY_TEXT)
    if NOTHING in kept:
        return NOTHING
    return kept[0] if len(kept) == 1 else Sequence(kept) if kept else EMPTY_TEXT


def alternation(*items: Expr) -> Expr:
    """One of `items`, nested alternations flattened and duplicates dropped."""
    flat: list[Expr] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Alternation) else (item,))
    kept = tuple(dict.fromkeys(flat))
    return kept[0] if len(kept) == 1 else Alternation(kept)


def optional(item: Expr) -> Expr:
    """`item` or the empty text."""
    return Repeat(item, 0, 1)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions."""
    if isinstance(expr, Sequence | Alternation):
        return expr.items
    return (expr.item,) if isinstance(expr, Repeat) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its sub-expressions, parents first; iterative, so depth is no danger."""
    todo = [expr]
    while todo:
        current = todo.pop()
        yield current
        todo.extend(reversed(children(current)))
