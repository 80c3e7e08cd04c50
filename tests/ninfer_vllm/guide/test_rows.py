"""A packed mask is computed once a state, equal ones are one row, and filling a row is a copy."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ninfer_vllm import OutputConstraint
from ninfer_vllm.guide import DEAD, ENDED, Guide, plain_vocabulary
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import as_bools, row_of
from ninfer_vllm.vocabulary import Vocabulary
from tests.support.vocabularies import byte_vocabulary

VOCABULARY = byte_vocabulary()
pytestmark = pytest.mark.contract("GDE-10")


@pytest.mark.contract("MSK-1")
def test_mask_has_exactly_the_bits_of_the_legal_tokens() -> None:
    guide = Guide.of(OutputConstraint.regex("(?:ab|é){1,3}\\n*"), VOCABULARY)
    for state in (*range(len(guide)), DEAD, ENDED):
        tokens = guide.allowed(state).tokens.tolist()
        assert guide.mask(state).tolist() == row_of(tokens, len(VOCABULARY)).tolist()
        row = np.full_like(guide.mask(state), -1)
        assert guide.fill(state, row) == bool(tokens)
        assert np.flatnonzero(as_bools(row, len(VOCABULARY))).tolist() == tokens


def test_mask_is_computed_once_and_equal_masks_are_one_row() -> None:
    guide = Guide.of(OutputConstraint.regex("[a-z]{100}"), VOCABULARY)
    rows = {id(guide.mask(state)) for state in range(len(guide))}
    assert len(rows) < 8
    assert all(guide.mask(state) is guide.mask(state) for state in range(len(guide)))
    with pytest.raises(ValueError, match="read-only"):
        guide.mask(0)[0] = 1


def test_masks_stay_within_their_budget_and_are_found_again() -> None:
    grammar = lower(OutputConstraint.choice(["abcdefgh", "ijklmnop"]))
    guide = Guide(grammar, VOCABULARY, masks_bytes=100)
    fresh = Guide(grammar, VOCABULARY)
    for _ in range(2):
        for state in range(len(guide)):
            assert guide.mask(state).tolist() == fresh.mask(state).tolist()
            assert sum(packed.row.nbytes for packed in guide._rows._distinct.values()) <= 100


def test_state_without_a_token_is_a_dead_end_of_the_vocabulary() -> None:
    guide = Guide.of(OutputConstraint.regex("ab"), plain_vocabulary([b"a", b""], [1]))
    row = np.ones_like(guide.mask(0))
    assert not guide.fill(guide.step(0, 0), row)
    assert not row.any()


@pytest.mark.contract("PRF-4")
def test_warm_fill_costs_a_copy(qwen: Vocabulary) -> None:
    guide = Guide.of(OutputConstraint.json_schema({"type": "string"}), qwen)
    state = guide.automaton.run(b'"')
    row = np.empty_like(guide.mask(state))
    guide.fill(state, row)
    source = guide.mask(state).copy()
    fill = min(_seconds(lambda: guide.fill(state, row)) for _ in range(30))
    copy = min(_seconds(lambda: np.copyto(row, source)) for _ in range(30))
    # Both move 19 KB and the rest is a few calls of Python; a walk over the vocabulary takes milliseconds.
    assert fill < copy + 300e-6


def _seconds(action: object) -> float:
    assert callable(action)
    started = time.perf_counter()
    for _ in range(200):
        action()
    return (time.perf_counter() - started) / 200
