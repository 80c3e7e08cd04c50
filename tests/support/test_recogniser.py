"""The recogniser itself, against enumeration: grammars small enough to list their language by hand or by loops."""

from functools import reduce
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.byteset import ByteSet
from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.grammar.ir import (
    EMPTY_TEXT,
    NOTHING,
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
    text,
)
from tests.support.oracles.recogniser import accepts, decode, is_prefix

MAX_BYTES = 4
WORDS = [bytes(word) for size in range(MAX_BYTES + 1) for word in product(b"ab", repeat=size)]


def _language(expr: Expr) -> set[bytes]:
    """All texts of at most MAX_BYTES bytes, by the definition of each operator."""
    if isinstance(expr, Literal):
        return {expr.data}
    if isinstance(expr, Alternation):
        return set().union(*map(_language, expr.items))
    if isinstance(expr, Sequence):
        return reduce(_joined, map(_language, expr.items), {b""})
    assert isinstance(expr, Repeat)
    once = _language(expr.item)
    power, found = {b""}, set[bytes]()
    for count in range(2 * MAX_BYTES + expr.minimum + 1):
        if count >= expr.minimum and (expr.maximum is None or count <= expr.maximum):
            found |= power
        power = _joined(power, once)
    return found


def _joined(left: set[bytes], right: set[bytes]) -> set[bytes]:
    return {one + other for one in left for other in right if len(one + other) <= MAX_BYTES}


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    several = st.lists(inner, max_size=3).map(tuple)
    bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None), (0, 0)])
    return st.one_of(
        several.map(Sequence),
        several.map(Alternation),
        st.tuples(inner, bounds).map(lambda pair: Repeat(pair[0], *pair[1])),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(st.sampled_from([text("a"), text("b"), text("ab"), EMPTY_TEXT]), _grown, max_leaves=8))
def test_finite_expressions_are_decided_as_by_enumeration(expr: Expr) -> None:
    grammar = Grammar({"root": expr}, "root")
    language = _language(expr)
    for word in WORDS:
        assert accepts(grammar, word) == (word in language)
        if any(other.startswith(word) for other in language):
            assert is_prefix(grammar, word)


@pytest.mark.parametrize(
    ("rules", "inside", "outside"),
    [
        ({"r": Alternation((Sequence((Rule("r"), text("a"))), text("b")))}, ["b", "baa"], ["", "a", "ab"]),
        ({"r": Alternation((Sequence((Rule("r"), Rule("r"))), text("a"), EMPTY_TEXT))}, ["", "aaaa"], ["b"]),
        ({"r": Alternation((Sequence((text("a"), Rule("r"), text("b"))), EMPTY_TEXT))}, ["", "aabb"], ["aab", "ba"]),
        ({"r": Repeat(Rule("x"), 0, None), "x": Alternation((Rule("r"), text("a")))}, ["", "aa"], ["b"]),
        ({"r": Repeat(Chars(ANY), 300, 300)}, ["漢" * 300], ["漢" * 299, "漢" * 301]),
    ],
)
def test_recursive_grammars(rules: dict[str, Expr], inside: list[str], outside: list[str]) -> None:
    grammar = Grammar(rules, "r")
    assert all(accepts(grammar, word) for word in inside)
    assert not any(accepts(grammar, word) for word in outside)


def test_prefix_ends_inside_a_character_literal_or_automaton() -> None:
    accented = CharSet.from_chars("é😀")
    automaton = Dfa(
        (((CharSet.from_chars("x"), 1), (CharSet.from_chars("z"), 2)), ((accented, 2),), ()), frozenset({2})
    )
    for terminal, whole in ((Chars(accented), "é"), (text("aé"), "aé"), (Regular(automaton), "xé")):
        grammar = Grammar({"root": terminal}, "root")
        data = whole.encode()
        assert all(is_prefix(grammar, data[:size]) for size in range(len(data) + 1))
        assert not any(accepts(grammar, data[:size]) for size in range(len(data)))
        assert accepts(grammar, data)
        assert not is_prefix(grammar, data[:-1] + b"\xbf")


def test_bytes_and_tokens() -> None:
    grammar = Grammar({"root": Sequence((Bytes(ByteSet.of([0xFF, 0x61])), Token(frozenset({5}))))}, "root")
    assert is_prefix(grammar, b"\xff")
    assert not accepts(grammar, b"\xff")
    assert not is_prefix(grammar, b"b")
    assert is_prefix(Grammar({"root": ExcludeToken(frozenset())}, "root"), "")


def test_what_derives_nothing_is_no_prefix() -> None:
    grammar = Grammar({"root": Alternation((Sequence((text("a"), NOTHING)), text("b")))}, "root")
    assert not is_prefix(grammar, "a")
    assert is_prefix(grammar, "b")


def test_unfinished_character_spans_exactly_the_characters_that_begin_so() -> None:
    spellings = {chr(code).encode(): code for code in ANY}
    spans: dict[bytes, list[int]] = {}
    for spelling, code in spellings.items():
        for size in range(1, len(spelling)):
            spans.setdefault(spelling[:size], []).append(code)
    for start, codes in spans.items():
        low, high, end = decode(start, 0)
        assert end is None
        assert (low, high) == (codes[0], codes[-1]) or 0xD7FF < codes[-1] + 1 <= 0xE000
    for start in (b"\x80", b"\xc0", b"\xc1", b"\xf5", b"\xff", b"\xe6a", b"\xf0\x80a"):
        low, high, end = decode(start, 0)
        assert (low, high, end) == (0, -1, None)
