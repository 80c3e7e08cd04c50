"""Grammars as text for people: EBNF-like rules, small automata state by state, larger ones by their size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.questions import shortest_text
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

SHOWN_STATES = 10
"""States of an automaton that are shown one by one."""

SHOWN_RANGES = 12
"""Ranges of a set of characters or bytes that are shown."""

SHOWN_CHARS = 2_000
"""Characters of a rule that are shown."""

LOOSE, TIGHT, ATOM = range(3)
"""How strongly an expression's text holds together: alternatives, a sequence, one thing."""

SHORT_REPEATS = {(0, None): "*", (1, None): "+", (0, 1): "?"}
SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
CLASS_ESCAPES = {**SHORT_ESCAPES, '"': '"', "]": "\\]", "[": "\\[", "^": "\\^", "-": "\\-"}


@dataclass(frozen=True, slots=True)
class PrintedRule:
    """One rule: its name, its body in one line, and the states of automata that are small enough to show."""

    name: str
    body: str
    states: tuple[str, ...] = ()


def printed(grammar: Grammar) -> Iterator[PrintedRule]:
    """The rules of a grammar, the root's first."""
    names = [grammar.root, *(name for name in grammar.rules if name != grammar.root)]
    for name in names:
        body = grammar.rules[name]
        known: dict[int, tuple[str, int]] = {}
        states: list[str] = []
        for node in postorder(body, known):
            known[id(node)] = _printed(node, known)
            if isinstance(node, Regular) and len(node.automaton.edges) <= SHOWN_STATES:
                states.extend(_states(node.automaton))
        yield PrintedRule(name, _cut(known[id(body)][0]), tuple(states))


def _printed(node: Expr, known: dict[int, tuple[str, int]]) -> tuple[str, int]:
    """The text of an expression over those of its parts, cut before it grows too long."""
    if isinstance(node, Sequence):
        return _cut(" ".join(_inside(known[id(item)], TIGHT) for item in node.items)) or '""', TIGHT
    if isinstance(node, Alternation):
        return _cut(" | ".join(known[id(item)][0] for item in node.items)) or "nothing", LOOSE
    if isinstance(node, Repeat):
        return _inside(known[id(node.item)], ATOM) + _bounds(node), ATOM
    return _terminal(node), ATOM


def _terminal(node: Expr) -> str:
    if isinstance(node, Literal):
        return _quoted(node.data)
    if isinstance(node, Chars):
        return class_text(node.chars)
    if isinstance(node, Bytes):
        return f"<byte {_listed(f'{value:02x}' for value in node.values)}>"
    if isinstance(node, Token | ExcludeToken):
        sign = "" if isinstance(node, Token) else "other than "
        return f"<token {sign}{_listed(map(str, sorted(node.ids)))}>"
    if isinstance(node, Regular):
        return _automaton(node.automaton)
    assert isinstance(node, Rule)
    return node.name


def class_text(chars: CharSet) -> str:
    """A set of characters as a class; one that leaves out less than it holds is written negated."""
    if chars == ANY:
        return "any"
    outside = ~chars
    negated = len(outside.ranges) < len(chars.ranges) or (len(outside) < len(chars) and chars.ranges[0][0] == 0)
    ranges = (outside if negated else chars).ranges
    shown = "".join(map(_range, ranges[:SHOWN_RANGES])) + ("…" if len(ranges) > SHOWN_RANGES else "")
    return f"[{'^' if negated else ''}{shown}]"


def _range(bounds: tuple[int, int]) -> str:
    low, high = bounds
    if low == high:
        return _in_class(low)
    return _in_class(low) + ("" if high == low + 1 else "-") + _in_class(high)


def _in_class(code: int) -> str:
    return _char(chr(code), CLASS_ESCAPES)


def _quoted(data: bytes) -> str:
    try:
        return '"' + "".join(_char(char, SHORT_ESCAPES) for char in data.decode()) + '"'
    except UnicodeDecodeError:
        return '"' + "".join(f"\\x{value:02x}" for value in data) + '"'


def _char(char: str, escapes: dict[str, str]) -> str:
    if char in escapes:
        return escapes[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _bounds(node: Repeat) -> str:
    bounds = (node.minimum, node.maximum)
    if bounds in SHORT_REPEATS:
        return SHORT_REPEATS[bounds]
    if node.minimum == node.maximum:
        return f"{{{node.minimum}}}"
    return f"{{{node.minimum},{'' if node.maximum is None else node.maximum}}}"


def _inside(part: tuple[str, int], least: int) -> str:
    text, level = part
    return text if level >= least else f"({text})"


def _automaton(automaton: Dfa) -> str:
    shortest = shortest_text(automaton)
    example = "" if shortest is None else f", such as {_cut(_quoted(shortest.encode()))}"
    num_edges = sum(map(len, automaton.edges))
    return f"<automaton of {len(automaton.edges)} states and {num_edges} edges{example}>"


def _states(automaton: Dfa) -> Iterator[str]:
    for state, edges in enumerate(automaton.edges):
        ways = [f"{class_text(chars)} -> {target}" for chars, target in edges]
        ends = ["end"] if state in automaton.accepting else []
        yield f"{state}: {', '.join([*ways, *ends]) or 'nothing'}"


def _listed(items: Iterable[str]) -> str:
    found = list(items)
    more = len(found) - SHOWN_RANGES
    return " ".join(found[:SHOWN_RANGES]) + (f" and {more} more" if more > 0 else "")


def _cut(text: str) -> str:
    more = len(text) - SHOWN_CHARS
    return f"{text[:SHOWN_CHARS]} … ({more} more characters)" if more > 0 else text
