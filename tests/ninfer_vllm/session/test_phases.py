"""Thinking phases: what may be said, how thinking closes, and that rollback covers the phase."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninfer_vllm.constraint import Frame, OutputConstraint
from ninfer_vllm.engines.xgrammar import XgrammarEngine
from ninfer_vllm.errors import InvalidContinuation
from ninfer_vllm.grammar.framing import framed
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import MaskRow, as_bools
from ninfer_vllm.masks.rows import RowState
from ninfer_vllm.session.phases import ThinkingRules
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


@pytest.fixture
def open_thinking(engine: XgrammarEngine, rules: ThinkingRules) -> Callable[..., OutputSession]:
    def opened(frame: Frame, budget: int | None) -> OutputSession:
        session = OutputSession(ANSWER.kind, engine.name, frame, budget=budget)
        session.attach(engine.compile(framed(lower(ANSWER), frame)), "built", rules)
        return session

    return opened


@pytest.mark.contract("THK-7")
@pytest.mark.parametrize(
    "case",
    [
        ("thinking", 0, [], [END_THINK]),
        ("thinking", 2, [ord("x"), ord("y")], [token_of(b"\n"), END_THINK]),
        ("thinking", 2, [ord("x"), token_of(b"\n\n")], [END_THINK]),
        ("opening", 0, [THINK], [token_of(b"\n"), END_THINK]),
        ("opening", 2, [THINK, token_of(b"\n"), ord("x")], [token_of(b"\n"), END_THINK]),
    ],
)
def test_a_spent_budget_leaves_one_next_token_until_the_block_is_closed(
    open_thinking: Callable[..., OutputSession],
    new_rows: Rows,
    vocabulary: Vocabulary,
    case: tuple[Frame, int, list[int], list[int]],
) -> None:
    frame, budget, thought, forced = case
    session = open_thinking(frame, budget)
    written = list(thought)
    for token in forced:
        # The one byte token of a line break stands before the longer ones, and is the lowest id.
        expected = {10} if token == token_of(b"\n") else {token}
        assert mask_after(session, written, new_rows, vocabulary) == expected
        written.append(*expected)
    closed = mask_after(session, written, new_rows, vocabulary)
    natural = open_thinking("thinking", None)
    assert closed == mask_after(natural, [END_THINK], new_rows, vocabulary), "the state behind any other close"
    assert session.preview([*written, 10, 10, token_of(b" ok"), EOS]) == len(written) + 4
    session.commit(len(written) + 4)
    assert (session.record.complete, session.record.reasoning_tokens) == (True, len(written))


@pytest.mark.contract("THK-7", "SES-4", "SPC-3")
def test_a_budget_counts_drafts_like_any_tokens_and_gives_rolled_back_ones_back(
    open_thinking: Callable[..., OutputSession], new_rows: Rows, vocabulary: Vocabulary
) -> None:
    session = open_thinking("thinking", 3)
    rows = new_rows(6)
    step = session.look_ahead([ord("a"), ord("b"), ord("c"), ord("d"), ord("e")], rows)
    assert [state is RowState.READY for state in step.states] == [True, True, True, True, False, False]
    assert set(np.flatnonzero(as_bools(rows[3], len(vocabulary)))) == {10}, "the draft behind the budget is rejected"
    session.preview([ord("a"), ord("b")])
    session.discard()
    assert mask_after(session, [ord("a"), ord("b")], new_rows, vocabulary) > {10}
    session.preview([ord("a"), ord("b"), ord("c")])
    session.commit(3)
    assert mask_after(session, [], new_rows, vocabulary) == {10}


@pytest.mark.contract("CON-1", "CON-3", "CON-4")
def test_existing_content_moves_a_new_matcher_once_and_counts_as_nothing(
    engine: XgrammarEngine, new_rows: Rows, vocabulary: Vocabulary
) -> None:
    compiled = engine.compile(lower(OutputConstraint.choice(["one", "only"])))
    session = OutputSession("choice", engine.name, "content", existing=(b"on",))
    session.attach(compiled, "built", None)
    assert mask_after(session, [], new_rows, vocabulary) == {ord("e"), ord("l")}
    assert session.preview([ord("e"), EOS]) == 2
    session.commit(2)
    assert (session.record.complete, session.record.reasoning_tokens) == (True, 0)
    whole = OutputSession("choice", engine.name, "content", existing=(b"one",))
    whole.attach(compiled, "built", None)
    assert whole.record.complete, "complete is what prefix and suffix are together"
    with pytest.raises(InvalidContinuation) as refusal:
        OutputSession("choice", engine.name, "content", existing=(b"on", b"x")).attach(compiled, "built", None)
    assert refusal.value.offset == 2
