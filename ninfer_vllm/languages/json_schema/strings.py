"""Strings in their one spelling: characters, counted texts, and automata over decoded characters (JSO-4, JST-5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce

from ninfer_vllm.automata.algebra import ANY_TEXT, explore, finite, intersection, minimise
from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.automata.dfa import Dfa, Edge
from ninfer_vllm.automata.lengths import limited
from ninfer_vllm.automata.work import remembered, spend, uncounted
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.ir import Chars, Expr, Literal, alternation, sequence
from ninfer_vllm.languages.json_schema.located import located
from ninfer_vllm.languages.json_schema.schema import ANY_LENGTH
from ninfer_vllm.languages.json_schema.shapes import Strings
from ninfer_vllm.limits import AUTOMATON_LENGTH

QUOTE = Literal(b'"')
BACKSLASH = CharSet.from_chars("\\")
CONTROLS = CharSet.from_ranges([(0, 0x1F)])
SHORT_ESCAPES = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
ESCAPED = CONTROLS | CharSet.from_chars('"\\')
DIRECT = ANY - ESCAPED
CACHED_STRINGS = 64
CACHED_SETS = 1_024

TREE_STEPS = 20
"""Steps of a state of a tree that is joined with the automaton of all spellings."""

MINIMISED_STATES = 4_096
"""States up to which the automaton of spellings is made minimal."""

LONG_ESCAPES = CONTROLS - CharSet.from_chars(SHORT_ESCAPES)


def character() -> Expr:
    """Any one character of a string, in its spelling."""
    short = sequence(Literal(b"\\"), Chars(CharSet.from_chars(SHORT_ESCAPES.values())))
    rows = {f"{code:04x}"[:3] for code in LONG_ESCAPES}
    long = (sequence(Literal(f"\\u{row}".encode()), Chars(_last_digits(row))) for row in sorted(rows))
    return alternation(Chars(DIRECT), short, *long)


def spelled(automaton: Dfa) -> Dfa:
    """The spellings, without quotes, of the strings that an automaton over decoded characters accepts."""
    if not any(chars & ESCAPED for chars in {chars for outgoing in automaton.edges for chars, _ in outgoing}):
        return automaton
    result = explore(
        (0, ""),
        lambda state: _after_escape(automaton, *state) if state[1] else _spelled_edges(automaton, state[0]),
        lambda state: not state[1] and state[0] in automaton.accepting,
    )
    # A large automaton is one of counted texts, of which few states could be joined.
    return minimise(result) if len(result.edges) <= MINIMISED_STATES else result


def all_but(texts: Iterable[str]) -> Dfa:
    """The spellings, without quotes, of every string except these.

    A tree of the texts' spellings runs beside the automaton of all spellings; who leaves the tree goes on in that.
    """
    spellings = _any_spelling()
    tree = finite("".join(map(_spelling, text)) for text in texts)
    spend(TREE_STEPS * len(tree.edges))
    beside = _states_beside(tree, spellings)
    first = len(tree.edges)
    edges = [_leaving(outgoing, spellings.edges[beside[at]], first) for at, outgoing in enumerate(tree.edges)]
    for outgoing in spellings.edges:
        edges.append(tuple((chars, first + target) for chars, target in outgoing))
    ends = {first + state for state in spellings.accepting}
    ends |= {at for at, state in enumerate(beside) if state in spellings.accepting and at not in tree.accepting}
    return Dfa(tuple(edges), frozenset(ends))


@remembered(CACHED_STRINGS)
def decoded(shape: Strings, pointer: str) -> Dfa:
    """The strings of a shape with patterns, character by character as they are meant.

    Errors: LimitExceeded beyond `AUTOMATON_LENGTH` or `REGULAR_STATES`.
    """
    explicit = max(shape.length.minimum, shape.length.maximum or 0)
    with located(pointer):
        automaton = reduce(intersection, [pattern.automaton for pattern in shape.patterns] or [ANY_TEXT])
        if shape.length == ANY_LENGTH:
            return automaton
        if explicit > AUTOMATON_LENGTH:
            raise LimitExceeded("automaton_length", AUTOMATON_LENGTH, explicit)
        return limited(automaton, shape.length.minimum, shape.length.maximum)


@remembered(CACHED_STRINGS)
def patterned(shape: Strings, pointer: str) -> Dfa:
    """The spellings, without quotes, of the strings of a shape with patterns."""
    with located(pointer):
        return spelled(decoded(shape, pointer))


def _last_digits(row: str) -> CharSet:
    """The last hexadecimal digits of the escapes that begin with the first three."""
    return CharSet.from_chars(f"{code:04x}"[3] for code in LONG_ESCAPES if f"{code:04x}".startswith(row))


@uncounted
def _any_spelling() -> Dfa:
    return spelled(ANY_TEXT)


def _states_beside(tree: Dfa, spellings: Dfa) -> list[int]:
    """For each state of a tree, the state of the other automaton after the same text."""
    beside = [0] * len(tree.edges)
    # A tree numbers its states before those that follow them.
    for at, outgoing in enumerate(tree.edges):
        for chars, target in outgoing:
            step = spellings.step(beside[at], chars.ranges[0][0])
            assert step is not None
            beside[target] = step
    return beside


def _leaving(inside: tuple[Edge, ...], outside: tuple[Edge, ...], first: int) -> tuple[Edge, ...]:
    """The edges that stay in the tree, and for all else those of the other automaton, whose states begin at `first`."""
    taken = CharSet.from_ranges(bounds for chars, _ in inside for bounds in chars.ranges)
    rest = ((chars - taken, first + target) for chars, target in outside)
    return (*inside, *((chars, target) for chars, target in rest if chars))


def _spelled_edges(automaton: Dfa, state: int) -> Iterator[tuple[CharSet, tuple[int, str]]]:
    """Direct characters, and a backslash where some character of the state is escaped."""
    escapes = False
    for chars, target in automaton.edges[state]:
        direct, escaped = _split(chars)
        escapes = escapes or bool(escaped)
        if direct:
            yield direct, (target, "")
    if escapes:
        yield BACKSLASH, (state, "\\")


def _after_escape(automaton: Dfa, state: int, read: str) -> Iterator[tuple[CharSet, tuple[int, str]]]:
    """One more character of an escape, from the state in which its backslash was read."""
    unfinished: dict[str, None] = {}
    for chars, target in automaton.edges[state]:
        ends, longer = _continuations(_split(chars)[1], read)
        # No spelling begins another one, so a complete one has a single target.
        if ends:
            yield ends, (target, "")
        unfinished.update(dict.fromkeys(longer))
    for spelling in unfinished:
        yield _single(spelling[-1]), (state, spelling)


@lru_cache(maxsize=CACHED_SETS)
def _continuations(escaped: CharSet, read: str) -> tuple[CharSet, tuple[str, ...]]:
    """The characters that complete a spelling after its first ones, and the longer beginnings of others."""
    spellings = [spelling for spelling in map(_spelling, map(chr, escaped)) if spelling.startswith(read)]
    size = len(read) + 1
    ends = CharSet.from_chars(spelling[-1] for spelling in spellings if len(spelling) == size)
    return ends, tuple(dict.fromkeys(spelling[:size] for spelling in spellings if len(spelling) > size))


@lru_cache(maxsize=CACHED_SETS)
def _split(chars: CharSet) -> tuple[CharSet, CharSet]:
    """The characters that are written directly, and those that are escaped."""
    return chars & DIRECT, chars & ESCAPED


@lru_cache(maxsize=CACHED_SETS)
def _single(char: str) -> CharSet:
    return CharSet.from_chars(char)


def _spelling(char: str) -> str:
    if ord(char) not in ESCAPED:
        return char
    short = SHORT_ESCAPES.get(char)
    return f"\\u{ord(char):04x}" if short is None else "\\" + short
