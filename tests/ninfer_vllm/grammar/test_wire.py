"""Grammars travel as bytes and come back equal; damaged bytes are refused."""

import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.errors import CompileFailed, LimitExceeded
from ninfer_vllm.grammar.ir import ExcludeToken, Expr, Grammar, Repeat, Sequence, Token, text
from ninfer_vllm.grammar.wire import VERSION, decode, encode
from tests.support.grammars import grammars

FEWER = settings(max_examples=40, deadline=None)


@FEWER
@given(grammars())
def test_grammar_comes_back_equal(grammar: Grammar) -> None:
    decoded = decode(encode(grammar))
    assert (dict(decoded.rules), decoded.root) == (dict(grammar.rules), grammar.root)
    assert list(decoded.rules) == list(grammar.rules)
    assert encode(decoded) == encode(grammar)


def test_token_terminals_come_back_equal() -> None:
    grammar = Grammar({"root": Sequence((Token(frozenset([3, 1])), ExcludeToken(frozenset([2]))))}, "root")
    assert decode(encode(grammar)).rules == grammar.rules


def test_shared_and_deep_expressions_travel_once_and_without_recursion() -> None:
    expr: Expr = text("a")
    for _ in range(20_000):
        expr = Sequence((expr, expr))
    assert len(encode(Grammar({"root": expr}, "root"))) < 20_000 * 12
    assert isinstance(decode(encode(Grammar({"root": expr}, "root"))).rules["root"], Sequence)


@FEWER
@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CompileFailed):
        decode(data)


@FEWER
@given(grammars(), st.data())
def test_damaged_bytes_are_refused_or_another_grammar(grammar: Grammar, data: st.DataObject) -> None:
    encoded = bytearray(encode(grammar))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(CompileFailed):
        assert isinstance(decode(bytes(encoded)), Grammar)


@pytest.mark.parametrize(
    "table",
    [
        [VERSION + 1, "r", {}, [], [], []],
        [VERSION, "r", {"r": 0}, [], [], []],
        [VERSION, "r", {"r": -1}, [[0, b"a"]], [], []],
        [VERSION, "r", {"r": 0}, [[7, [0]]], [], []],
        [VERSION, "r", {"r": 0}, [[2, 0]], [], []],
        [VERSION, "r", {"r": 0}, [[3, 0]], [], [[[[[0, 5]]], [0]]]],
        [VERSION, "r", {"r": 1}, [[0, b"a"], [9, 0, 3, 2]], [], []],
    ],
)
def test_numbers_out_of_range_are_refused(table: object) -> None:
    with pytest.raises(CompileFailed):
        decode(msgspec.msgpack.encode(table))


def test_repeat_counts_beyond_the_bound_are_refused() -> None:
    with pytest.raises(LimitExceeded) as caught:
        encode(Grammar({"root": Repeat(text("a"), 0, 2**80)}, "root"))
    assert caught.value.limit == "repeat_bound"
