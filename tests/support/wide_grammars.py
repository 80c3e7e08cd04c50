"""Random grammars with free text, counts and lists, over a token domain in which free text is wide."""

from __future__ import annotations

import random
import string

from ninfer_vllm.automata.byteset import ByteSet
from ninfer_vllm.automata.charset import ANY, CharSet
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

WORDS = (
    *(b"a", b"b", b"c", b'"', b"x", b"ab", b"abc", b"aa", b"aaaa", b'a"', b'"b', b'"c"', b"ba", b"bb", b"bab"),
    *(b"\xc3", b"\xa9", b"\xe6", b"\xb5\xb7", b"\xb5", b"\xb7", b'x"a', b"cc", b"ccc", b'cab"', b"cab"),
    *(text.encode() for text in ("é", "海", "aé", '海"a')),
)
EOS = len(WORDS)
UNUSABLE = EOS + 1
NUM_TOKENS = EOS + 2
TEXTS = (b"a", b"b", b"ab", b'"', b'"a', b"c", "é".encode(), "海a".encode(), b"", "aé".encode())
STARTS = (b"a", b"ab", b"abc", b"b", b'"', b"ca", b"cab")
ENDS = (b'"', b"a", b'"a')
LETTERS = CharSet.from_chars([*string.ascii_letters, "é", "海"])
DIRECT = ANY - CharSet.from_chars('"\\')


def wide_vocabulary() -> Vocabulary:
    """The ordinary tokens of `WORDS`, one EOS token and a padding id."""
    classes = bytes([*[TokenClass.ORDINARY] * len(WORDS), TokenClass.EOS, TokenClass.UNUSABLE])
    return Vocabulary((*WORDS, b"<eos>", b""), classes, {"<eos>": EOS})


def wide_grammar(seed: int) -> Grammar:
    """A grammar of one to four rules; some derive nothing, some are left-recursive."""
    rng = random.Random(seed)
    names = [f"r{number}" for number in range(rng.randint(1, 4))]
    return Grammar({name: _expression(rng, 3, names) for name in names}, names[0])


def _expression(rng: random.Random, depth: int, names: list[str]) -> Expr:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return _leaf(rng, names)
    if kind < 0.6:
        return Sequence(tuple(_expression(rng, depth - 1, names) for _ in range(rng.randint(0, 4))))
    if kind < 0.8:
        return _alternatives(rng, depth, names)
    minimum = rng.choice([0, 0, 1, 1, 2, 3])
    extra = rng.choice([None, 0, 1, 2, 5])
    repeated = Repeat(_expression(rng, depth - 1, names), minimum, None if extra is None else minimum + extra)
    return Sequence((repeated, Literal(rng.choice(ENDS)))) if rng.random() < 0.4 else repeated


def _leaf(rng: random.Random, names: list[str]) -> Expr:
    kind = rng.random()
    if kind < 0.35:
        return Literal(rng.choice(TEXTS))
    if kind < 0.6:
        return Chars(_characters(rng))
    if kind < 0.65:
        return Bytes(ByteSet.of([0x61, 0x62, 0xC3][: rng.randint(1, 3)]))
    return Regular(_automaton(rng)) if kind < 0.75 else Rule(rng.choice(names))


def _alternatives(rng: random.Random, depth: int, names: list[str]) -> Expr:
    if rng.random() < 0.9:
        return Alternation(tuple(_expression(rng, depth - 1, names) for _ in range(rng.randint(1, 3))))
    items: list[Expr] = []
    for _ in range(12):
        start = Literal(rng.choice(STARTS))
        items.append(Sequence((start, _expression(rng, 1, names))) if rng.random() < 0.5 else start)
    return Alternation(tuple(items))


def _characters(rng: random.Random) -> CharSet:
    kind = rng.random()
    if kind < 0.5:
        return LETTERS if kind < 0.3 else DIRECT
    return CharSet.from_chars(rng.sample(["a", "b", "c", '"', "é", "海", "x"], rng.randint(1, 3)))


def _automaton(rng: random.Random) -> Dfa:
    """A deterministic automaton; some have states that cannot accept."""
    num_states = rng.randint(1, 4)
    edges = []
    for _ in range(num_states):
        left = ANY
        outgoing = []
        for _ in range(rng.randint(0, 3)):
            chars = _characters(rng) & left
            if chars:
                outgoing.append((chars, rng.randrange(num_states)))
                left = left - chars
        edges.append(tuple(outgoing))
    return Dfa(tuple(edges), frozenset(state for state in range(num_states) if rng.random() < 0.5))
