"""Grammar drafts: what a grammar leaves no choice about, proposed without moving the matcher."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import empty_row, is_legal, row_of
from ninfer_vllm.session.grammar_drafts import forced_tokens, longest_of_chain
from tests.support.vocabularies import END_THINK, EOS, THINK, byte_vocabulary, token_of

VOCABULARY = byte_vocabulary()
ENGINE = NativeEngine(VOCABULARY)
SIZE = len(VOCABULARY)

pytestmark = pytest.mark.contract("SPC-10")


def matcher_of(constraint: OutputConstraint) -> Matcher:
    return ENGINE.compile(prune(lower(constraint))).matcher()


def forced(matcher: Matcher, limit: int = 20) -> tuple[int, ...]:
    return forced_tokens(matcher, VOCABULARY.spellings, limit, empty_row(SIZE))


def test_forced_text_is_proposed_in_its_longest_tokens_up_to_the_first_choice() -> None:
    schema = {"type": "object", "properties": {"abc": {"enum": [1, 2]}}, "required": ["abc"]}
    matcher = matcher_of(OutputConstraint.json_schema({**schema, "additionalProperties": False}))
    wanted = (token_of(b'{"'), token_of(b"abc"), token_of(b'":'))
    assert forced(matcher) == wanted
    assert forced(matcher, 2) == wanted[:2]
    assert forced(matcher, 0) == ()
    assert matcher.accept_bytes(b'{"abc":2') == 8
    assert forced(matcher) == (token_of(b"}"), EOS)


@pytest.mark.parametrize(
    ("literals", "wanted"), [(["x", "y"], ()), (["ab", "abx"], (token_of(b"ab"),)), (["a"], (97, EOS))]
)
def test_a_choice_or_a_possible_end_stops_it(literals: list[str], wanted: tuple[int, ...]) -> None:
    assert forced(matcher_of(OutputConstraint.choice(literals))) == wanted


def test_a_row_gives_the_longest_of_a_chain_only() -> None:
    a, ab, abc, b = (token_of(text) for text in (b"a", b"ab", b"abc", b"b"))
    cases = {(): None, (a,): a, (a, ab): ab, (abc, a, ab): abc, (a, b): None, (ab, b): None, (a, EOS): None}
    cases |= {(EOS,): EOS, (THINK,): THINK, (THINK, END_THINK): None}
    for legal, wanted in cases.items():
        assert longest_of_chain(row_of(legal, SIZE), VOCABULARY.spellings) == wanted, legal
    assert longest_of_chain(row_of(range(200), SIZE), VOCABULARY.spellings) is None


@given(st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=4), st.integers(1, 8), st.data())
def test_every_proposal_is_legal_and_the_matcher_stays(literals: list[str], limit: int, data: st.DataObject) -> None:
    matcher = matcher_of(OutputConstraint.choice(literals))
    text = data.draw(st.sampled_from(literals))
    assert matcher.accept_bytes(text[: data.draw(st.integers(0, len(text)))].encode()) >= 0
    before, after = empty_row(SIZE), empty_row(SIZE)
    matcher.fill(before)
    tokens = forced(matcher, limit)
    matcher.fill(after)
    assert np.array_equal(before, after)
    assert len(tokens) <= limit
    row = empty_row(SIZE)
    for token in tokens:
        matcher.fill(row)
        assert is_legal(row, token)
        assert matcher.accept(token)


@given(
    st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text("abé\n", max_size=3), st.lists, max_leaves=6)
)
def test_the_whole_of_a_constant_is_proposed(value: object) -> None:
    tokens = forced(matcher_of(OutputConstraint.json_schema({"const": value})), 200)
    assert tokens[-1] == EOS
    assert json.loads(b"".join(VOCABULARY.spellings[token] for token in tokens[:-1])) == value
