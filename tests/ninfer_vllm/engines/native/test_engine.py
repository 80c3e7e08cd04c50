"""What the native engine takes, what it refuses, and how tokens that are no text behave."""

import threading

import numpy as np
import pytest

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.errors import MatcherInconsistency, Unsatisfiable, UnsupportedByEngine
from ninfer_vllm.grammar.ir import (
    NOTHING,
    Alternation,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Literal,
    Repeat,
    Rule,
    Sequence,
    Token,
)
from tests.support.vocabularies import END_THINK, EOS, FIRST_MULTI, THINK, byte_vocabulary, token_of

LETTERS = Chars(CharSet.from_ranges([(0x61, 0x7A)]))


def matcher(engine: NativeEngine, body: Expr, **rules: Expr) -> Matcher:
    return engine.compile(Grammar({"root": body, **rules}, "root")).matcher()


def legal(matcher: Matcher) -> set[int]:
    row = np.full(byte_vocabulary().words, -1, np.int32)
    matcher.fill(row)
    return {token for token in range(32 * len(row)) if row[token // 32] >> (token % 32) & 1}


@pytest.mark.parametrize(
    "rules",
    [
        {"root": Alternation((Sequence((Rule("root"), Literal(b"a"))), Literal(b"a")))},
        {
            "root": Rule("a"),
            "a": Sequence((Repeat(Literal(b"x"), 0, 1), Rule("b"))),
            "b": Alternation((Rule("a"), Literal(b"y"))),
        },
        {"root": Sequence((Literal(b"x"), Rule("a"))), "a": Alternation((Repeat(Rule("a"), 2, 3), Literal(b"y")))},
    ],
)
def test_left_recursion_is_refused_by_name(octets_native: NativeEngine, rules: dict[str, Expr]) -> None:
    with pytest.raises(UnsupportedByEngine, match="left recursion"):
        octets_native.compile(Grammar(rules, "root"))


def test_right_and_middle_recursion_are_taken(octets_native: NativeEngine) -> None:
    nested = Alternation((Sequence((Literal(b"("), Rule("root"), Literal(b")"))), Literal(b"")))
    walker = matcher(octets_native, nested)
    assert walker.accept_bytes(b"((()))") == 6
    assert walker.complete
    assert walker.accept_bytes(b")") == 0


def test_empty_language_is_refused(octets_native: NativeEngine) -> None:
    with pytest.raises(Unsatisfiable):
        octets_native.compile(Grammar({"root": Sequence((Literal(b"a"), NOTHING))}, "root"))


@pytest.mark.contract("TOK-3", "TOK-4")
def test_control_token_is_legal_only_where_its_id_is_named(octets_native: NativeEngine) -> None:
    body = Sequence((Token(frozenset({THINK})), Literal(b"<think>"), Token(frozenset({97, THINK}))))
    walker = matcher(octets_native, body)
    assert legal(walker) == {THINK}
    assert not walker.accept(ord("<"))
    assert walker.accept(THINK)
    assert legal(walker) == {ord("<")}
    assert not walker.accept(THINK)
    assert walker.accept_bytes(b"<think>") == 7
    assert legal(walker) == {97, THINK}
    assert walker.accept(97)
    assert walker.complete


@pytest.mark.contract("TOK-2", "TOK-3")
def test_excluded_token_stands_for_any_other_ordinary_one(octets_native: NativeEngine) -> None:
    walker = matcher(octets_native, ExcludeToken(frozenset({97, 98})))
    ordinary = {*range(256), *range(FIRST_MULTI, FIRST_MULTI + 9)}
    assert legal(walker) == ordinary - {97, 98}
    assert not walker.accept(97)
    assert not walker.accept(END_THINK)
    assert walker.accept(token_of(b"abc"))
    assert legal(walker) == {EOS}


def test_token_terminal_and_text_of_one_token_are_both_followed(octets_native: NativeEngine) -> None:
    body = Alternation((Sequence((Token(frozenset({97})), Literal(b"x"))), Sequence((Literal(b"a"), Literal(b"y")))))
    walker = matcher(octets_native, body)
    assert walker.accept(97)
    assert legal(walker) == {ord("x"), ord("y")}


@pytest.mark.contract("GEN-2", "END-1")
def test_eos_is_legal_only_where_the_text_is_complete(octets_native: NativeEngine) -> None:
    walker = matcher(octets_native, Repeat(LETTERS, 1, None))
    assert not walker.accept(EOS)
    assert walker.accept(97)
    assert walker.complete
    assert not walker.terminated
    assert EOS in legal(walker)
    assert walker.accept(EOS)
    assert walker.terminated
    assert walker.complete
    assert legal(walker) == set()
    assert not walker.accept(97)
    walker.rollback(1)
    assert not walker.terminated
    assert walker.accept(98)


def test_rollback_beyond_what_was_accepted_is_an_inconsistency(octets_native: NativeEngine) -> None:
    walker = matcher(octets_native, Repeat(LETTERS, 1, None))
    walker.accept(97)
    for count in (2, -1):
        with pytest.raises(MatcherInconsistency):
            walker.rollback(count)
    walker.forget()
    with pytest.raises(MatcherInconsistency):
        walker.rollback(1)


@pytest.mark.contract("CMP-1")
def test_threads_may_share_a_grammar(octets_native: NativeEngine) -> None:
    item = Alternation((LETTERS, Sequence((Literal(b"["), Rule("root"), Literal(b"]")))))
    shared = octets_native.compile(Grammar({"root": Repeat(item, 0, 40)}, "root"))
    alone = octets_native.compile(Grammar({"root": Repeat(item, 0, 40)}, "root"))
    text = b"ab[c[d]ef]" * 3
    expected = masks_along(alone.matcher(), text)
    found: list[list[set[int]]] = []
    threads = [threading.Thread(target=lambda: found.append(masks_along(shared.matcher(), text))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def masks_along(walker: Matcher, text: bytes) -> list[set[int]]:
    masks = []
    for byte in text:
        masks.append(legal(walker))
        assert walker.accept(byte)
    return masks
