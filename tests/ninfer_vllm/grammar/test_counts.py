"""Merging repetitions keeps the language."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.grammar.counts import merge_counts
from ninfer_vllm.grammar.ir import Alternation, Expr, Grammar, Repeat, Rule, Sequence, text
from ninfer_vllm.limits import REPEAT_BOUND
from tests.support.grammars import ALPHABET, grammars
from tests.support.oracles.recogniser import Recogniser

FEWER = settings(max_examples=40, deadline=None)

A, B = text("a"), text("b")


def merged(body: Expr) -> Expr:
    return merge_counts(Grammar({"root": body}, "root")).rules["root"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (Repeat(Repeat(A, 1, 50), 1, 50), Repeat(A, 1, 2500)),
        (Repeat(Repeat(Repeat(A, 1, 3), 1, 3), 1, 3), Repeat(A, 1, 27)),
        (Repeat(Repeat(A, 1, None), 1, 400), Repeat(A, 1, None)),
        (Repeat(Repeat(A, 0, 1), 500, 500), Repeat(A, 0, 500)),
        (Repeat(Repeat(A, 2, 2), 3, 3), Repeat(A, 6, 6)),
        (Repeat(Repeat(A, 2, 3), 1, 2), Repeat(A, 2, 6)),
        (Repeat(Repeat(A, 3, 4), 1, 2), Repeat(Repeat(A, 3, 4), 1, 2)),
        (Repeat(Repeat(A, 2, 3), 2, 4), Repeat(A, 4, 12)),
        (Repeat(Repeat(A, 2, None), 0, 1), Repeat(Repeat(A, 2, None), 0, 1)),
        (Sequence((Repeat(A, 0, 20), Repeat(A, 1, 5), A)), Repeat(A, 2, 26)),
        (Sequence((A, A)), Sequence((A, A))),
        (Sequence((Repeat(A, 0, None), Repeat(B, 0, 1))), Sequence((Repeat(A, 0, None), Repeat(B, 0, 1)))),
        (Repeat(Repeat(A, 0, 0), 0, None), Repeat(Repeat(A, 0, 0), 0, None)),
    ],
)
def test_counts_merge_where_none_is_left_out(body: Expr, expected: Expr) -> None:
    assert merged(body) == expected


@FEWER
@given(
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 3)),
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 3)),
)
def test_nested_counts_keep_exactly_their_totals(low: int, more: int | None, least: int, extra: int | None) -> None:
    inner = Repeat(A, low, None if more is None else low + more)
    body = Repeat(inner, least, None if extra is None else least + extra)
    before, after = (Recogniser(Grammar({"root": expr}, "root")) for expr in (body, merged(body)))
    for count in range(30):
        assert before.accepts(b"a" * count) == after.accepts(b"a" * count)


@FEWER
@given(grammars(), st.lists(st.text(st.sampled_from(ALPHABET), max_size=6), max_size=5))
def test_merging_keeps_the_language(grammar: Grammar, texts: list[str]) -> None:
    before, after = Recogniser(grammar), Recogniser(merge_counts(grammar))
    for value in ["", *texts]:
        assert before.accepts(value) == after.accepts(value)


def test_totals_beyond_the_bound_stay_apart() -> None:
    for body in (Repeat(Repeat(A, 0, 1 << 20), 0, 1 << 20), Sequence((Repeat(A, 0, REPEAT_BOUND), A))):
        assert merged(body) == body


def test_deep_nesting_is_no_danger() -> None:
    body: Expr = A
    for _ in range(5_000):
        body = Alternation((Sequence((Repeat(body, 0, 1), Repeat(Rule("x"), 0, 1))), B))
    assert isinstance(merged(body), Alternation)
