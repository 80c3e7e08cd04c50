"""A choice accepts its texts and nothing else, whatever they share and however many they are."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import InvalidChoice
from ninfer_vllm.grammar.checks import count_nodes, undefined_rules
from ninfer_vllm.grammar.ir import Rule, walk
from ninfer_vllm.languages.choice import lower_choice
from ninfer_vllm.limits import CHOICE_LITERALS, CHOICE_TOTAL_CHARS
from tests.support.cases import misjudged, open_cases
from tests.support.effort import cpu_within
from tests.support.oracles.recogniser import Recogniser

texts = st.text("ab漢😀\n\u2028", max_size=6)


@pytest.mark.contract("CHO-1", "CHO-2", "CHO-3")
@settings(max_examples=300, deadline=None)
@given(st.lists(texts, min_size=1, max_size=12), st.lists(texts, max_size=10))
def test_exactly_the_listed_texts_are_accepted(literals: list[str], others: list[str]) -> None:
    recogniser = Recogniser(lower_choice(literals))
    cut = [literal[:size] for literal in literals for size in range(len(literal))]
    longer = [literal + "a" for literal in literals]
    for text in [*literals, *others, *cut, *longer]:
        assert recogniser.accepts(text) == (text in literals)
        assert recogniser.is_prefix(text) == any(literal.startswith(text) for literal in literals)


@pytest.mark.contract("CHO-2")
@given(st.lists(texts, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_order_and_duplicates_carry_no_weight(literals: list[str], random: Any) -> None:
    shuffled = literals * 2
    random.shuffle(shuffled)
    assert lower_choice(shuffled) == lower_choice(literals)


@pytest.mark.contract("CHO-3")
def test_after_the_shorter_option_both_the_end_and_the_longer_one_are_open() -> None:
    recogniser = Recogniser(lower_choice(["y", "yes", "yes please"]))
    assert recogniser.accepts("y")
    assert recogniser.is_prefix("ye")
    assert recogniser.accepts("yes")
    assert recogniser.is_prefix("yes ")


@pytest.mark.contract("CHO-2")
def test_empty_text_alone_is_a_choice() -> None:
    recogniser = Recogniser(lower_choice([""]))
    assert recogniser.accepts("")
    assert not recogniser.is_prefix("a")


@pytest.mark.contract("CHO-4")
@pytest.mark.parametrize(
    ("literals", "index"),
    [([], None), (["a", 1], 1), (["a", None], 1), (["a", "b", "\ud800"], 2), (["a", b"b"], 1)],
)
def test_invalid_list_is_refused_with_the_index(literals: list[Any], index: int | None) -> None:
    with pytest.raises(InvalidChoice) as caught:
        lower_choice(literals)
    assert caught.value.index == index


@pytest.mark.contract("CHO-4", "SEC-2")
def test_list_over_a_limit_is_refused() -> None:
    with pytest.raises(InvalidChoice, match=str(CHOICE_LITERALS)):
        lower_choice(["a"] * (CHOICE_LITERALS + 1))
    with pytest.raises(InvalidChoice, match=str(CHOICE_TOTAL_CHARS)):
        lower_choice(["a" * CHOICE_TOTAL_CHARS, "b"])


@pytest.mark.contract("CHO-1", "SEC-2")
@pytest.mark.parametrize(
    "literals",
    [
        [f"label-{number:05d}" for number in range(CHOICE_LITERALS)],
        ["a" * size for size in range(2_000)],
        ["x" * (CHOICE_TOTAL_CHARS - 1), "y"],
        [bin(number * 2_654_435_761 % 2**32)[2:] for number in range(20_000)],
    ],
    ids=["many", "prefixes", "long", "random"],
)
def test_large_choice_is_lowered_fast_and_shallow(literals: list[str]) -> None:
    with cpu_within(20):
        grammar = lower_choice(literals)
    assert count_nodes(grammar) < 8 * len(literals)
    assert pickle.loads(pickle.dumps(grammar)).root == grammar.root
    assert undefined_rules(grammar) == []
    assert not any(node == Rule(grammar.root) for body in grammar.rules.values() for node in walk(body))


def test_large_choice_keeps_its_language() -> None:
    recogniser = Recogniser(lower_choice([f"label-{number:05d}" for number in range(20_000)]))
    assert all(recogniser.accepts(text) for text in ("label-00000", "label-19999", "label-07311"))
    assert not any(recogniser.accepts(text) for text in ("label-20000", "label-0731", "label-", "Label-00000"))


@pytest.mark.contract("CHO-1", "CHO-2", "CHO-3", "CHO-4")
@pytest.mark.parametrize("case", open_cases("choice"))
def test_open_case(case: dict[str, Any]) -> None:
    if case["expect_error"]:
        with pytest.raises(InvalidChoice):
            lower_choice(case["constraint"]["choice"])
    else:
        literals = OutputConstraint.choice(case["constraint"]["choice"]).literals
        assert misjudged(case, Recogniser(lower_choice(literals)).accepts) == []
