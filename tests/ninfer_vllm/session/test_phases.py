"""Thinking phases: what may be said, how thinking closes, and that rollback covers the phase."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.masks.bits import MaskRow, as_bools
from ninfer_vllm.masks.rows import RowState
from ninfer_vllm.session.session import OutputSession
from ninfer_vllm.vocabulary import TokenClass, Vocabulary
from tests.support.vocabularies import END_THINK, EOS, THINK, token_of

Opener = Callable[..., OutputSession]
Rows = Callable[[int], list[MaskRow]]
ANSWER = OutputConstraint.choice([" ok"])


def mask_after(session: OutputSession, tokens: list[int], new_rows: Rows, vocabulary: Vocabulary) -> set[int]:
    rows = new_rows(len(tokens) + 1)
    step = session.look_ahead(tokens, rows)
    assert step.states[-1] is RowState.READY, "the whole prefix is legal"
    return set(np.flatnonzero(as_bools(rows[-1], len(vocabulary))))


@pytest.mark.contract("THK-3", "TOK-3", "TOK-4")
def test_thinking_takes_any_ordinary_text_and_closes_only_behind_a_newline(
    open_session: Opener, new_rows: Rows, vocabulary: Vocabulary
) -> None:
    ordinary = set(vocabulary.ids(TokenClass.ORDINARY))
    session = open_session(ANSWER, "thinking")
    assert mask_after(session, [], new_rows, vocabulary) == ordinary | {END_THINK}
    assert mask_after(session, [ord("x")], new_rows, vocabulary) == ordinary
    assert mask_after(session, [ord("x"), token_of(b"\n\n")], new_rows, vocabulary) == ordinary | {END_THINK}
    assert EOS not in mask_after(session, [ord("\n")], new_rows, vocabulary)


@pytest.mark.contract("THK-4", "THK-5", "WEX-5")
def test_content_that_starts_with_a_space_keeps_it_behind_the_close(
    open_session: Opener, new_rows: Rows, vocabulary: Vocabulary
) -> None:
    session = open_session(ANSWER, "thinking")
    assert mask_after(session, [END_THINK], new_rows, vocabulary) == {10, token_of(b"\n"), token_of(b"\n\n")}
    assert mask_after(session, [END_THINK, token_of(b"\n\n")], new_rows, vocabulary) == {ord(" "), token_of(b" ok")}
    assert session.preview([END_THINK, 10, 10, token_of(b" ok"), EOS]) == 5
    session.commit(5)
    assert (session.record.terminated, session.record.reasoning_tokens) == (True, 1)


@pytest.mark.contract("THK-2")
def test_opening_demands_the_opening_token_and_its_newline(
    open_session: Opener, new_rows: Rows, vocabulary: Vocabulary
) -> None:
    session = open_session(ANSWER, "opening")
    assert mask_after(session, [], new_rows, vocabulary) == {THINK}
    assert mask_after(session, [THINK], new_rows, vocabulary) == {10, token_of(b"\n"), token_of(b"\n\n")}
    assert END_THINK in mask_after(session, [THINK, 10], new_rows, vocabulary)


@pytest.mark.contract("SES-4", "THK-6")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tokens=st.lists(st.sampled_from([10, ord("x"), token_of(b"\n\n"), END_THINK, ord(" "), ord("o")]), max_size=8))
def test_discard_restores_the_phase_whatever_was_previewed(
    open_session: Opener, new_rows: Rows, vocabulary: Vocabulary, tokens: list[int]
) -> None:
    session = open_session(ANSWER, "thinking")
    session.preview([ord("x")])
    session.commit(1)
    before = mask_after(session, [], new_rows, vocabulary)
    session.preview(tokens)
    session.discard()
    assert mask_after(session, [], new_rows, vocabulary) == before
    assert session.record.reasoning_tokens == 1


@pytest.mark.contract("END-2", "THK-3")
def test_thinking_alone_completes_nothing(open_session: Opener) -> None:
    session = open_session(OutputConstraint.choice(["", "a"]), "thinking")
    session.preview([ord("x"), 10])
    session.commit(2)
    assert (session.record.complete, session.record.branch) == (False, "undecided")
