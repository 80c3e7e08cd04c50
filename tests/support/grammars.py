"""Random grammars of the IR over a few characters, and a token domain that cuts their texts in awkward places."""

from __future__ import annotations

from hypothesis import strategies as st

from ninfer_vllm.automata.byteset import ByteSet
from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
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
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

ALPHABET = "abcé€"
WORDS = (
    *(char.encode() for char in "abcéd"),
    b"\xc3",
    b"\xa9",
    b"\xe2",
    b"\x82\xac",
    *(text.encode() for text in ("aa", "ab", "ba", "abc", "cab", "éé")),
    b"a\xc3",
    b"\xa9b",
)
"""Spellings of the ordinary tokens: characters, parts of characters, and tokens across both."""

CONTROL = len(WORDS)
"""A control token that is spelled like the ordinary token `a`."""
EOS = CONTROL + 1
OTHER_EOS = CONTROL + 2
UNUSABLE = CONTROL + 3
NUM_TOKENS = CONTROL + 4


def word_vocabulary() -> Vocabulary:
    """The ordinary tokens of `WORDS`, one control token, two EOS tokens and a padding id."""
    special = (TokenClass.CONTROL, TokenClass.EOS, TokenClass.EOS, TokenClass.UNUSABLE)
    classes = bytes([*[TokenClass.ORDINARY] * len(WORDS), *special])
    return Vocabulary((*WORDS, b"a", b"b", b"c", b""), classes, {"a": CONTROL, "b": EOS, "c": OTHER_EOS})


def charsets() -> st.SearchStrategy[CharSet]:
    """Non-empty sets of the alphabet's characters."""
    return st.sets(st.sampled_from(ALPHABET), min_size=1, max_size=3).map(CharSet.from_chars)


@st.composite
def automata(draw: st.DrawFn) -> Dfa:
    """Small deterministic automata, some with dead states."""
    num_states = draw(st.integers(1, 4))
    states = st.integers(0, num_states - 1)
    edges = []
    for _ in range(num_states):
        targets = draw(st.dictionaries(st.sampled_from(ALPHABET), states, max_size=3))
        edges.append(tuple((CharSet.from_chars(char), target) for char, target in targets.items()))
    return Dfa(tuple(edges), draw(st.frozensets(states)))


def terminals() -> st.SearchStrategy[Expr]:
    """Terminals that match text."""
    return st.one_of(
        st.text(st.sampled_from(ALPHABET), max_size=3).map(lambda text: Literal(text.encode())),
        st.sets(st.sampled_from(b"abc"), min_size=1).map(lambda values: Bytes(ByteSet.of(values))),
        charsets().map(Chars),
        automata().map(Regular),
    )


def expressions(names: list[str]) -> st.SearchStrategy[Expr]:
    """Expressions over rules of the given names."""
    leaves = st.one_of(terminals(), st.sampled_from(names).map(Rule))
    return st.recursive(leaves, _composites, max_leaves=6)


def _composites(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    items = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(items.map(Sequence), items.map(Alternation), st.builds(_repeat, inner, st.integers(0, 3), _EXTRA))


_EXTRA = st.one_of(st.none(), st.integers(0, 3))


def _repeat(item: Expr, minimum: int, extra: int | None) -> Repeat:
    return Repeat(item, minimum, None if extra is None else minimum + extra)


@st.composite
def grammars(draw: st.DrawFn) -> Grammar:
    """Grammars with recursion of every kind, unreachable and unproductive rules."""
    names = [f"r{number}" for number in range(draw(st.integers(1, 3)))]
    return Grammar({name: draw(expressions(names)) for name in names}, names[0])
