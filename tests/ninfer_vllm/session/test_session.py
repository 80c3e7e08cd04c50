"""Sessions: lookahead leaves no trace, previews are provisional, records show committed facts only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConstraintDeadEnd, IllegalTransition, MatcherInconsistency
from ninfer_vllm.masks.bits import MaskRow, as_bools
from ninfer_vllm.masks.rows import RowState
from ninfer_vllm.session.session import OutputSession
from ninfer_vllm.session.states import State
from ninfer_vllm.vocabulary import Vocabulary
from tests.support.vocabularies import EOS, token_of

Opener = Callable[..., OutputSession]
Rows = Callable[[int], list[MaskRow]]
CHOICE = OutputConstraint.choice(["abc", "ab", "xyz"])
READY, DEAD_END, UNREACHABLE = RowState.READY, RowState.DEAD_END, RowState.UNREACHABLE


def legal(row: MaskRow, vocabulary: Vocabulary) -> set[int]:
    return set(np.flatnonzero(as_bools(row, len(vocabulary))))


def ids(text: str) -> list[int]:
    return list(text.encode())


@pytest.mark.contract("MSK-2", "MSK-4", "MSK-9", "CHO-3")
def test_lookahead_fills_one_row_for_each_draft_and_one_more(open_session: Opener, new_rows: Rows, vocabulary) -> None:
    session, rows = open_session(CHOICE), new_rows(3)
    step = session.look_ahead(ids("ab"), rows)
    assert step.states == (READY, READY, READY)
    assert legal(rows[0], vocabulary) == {*b"ax", token_of(b"ab"), token_of(b"abc")}
    assert legal(rows[1], vocabulary) == {*b"b"}
    assert legal(rows[2], vocabulary) == {*b"c", EOS}, "the short option may end, the longer may go on"


@pytest.mark.contract("MSK-4", "SPC-3")
def test_position_of_an_illegal_draft_is_ready_and_later_ones_are_unreachable(
    open_session: Opener, new_rows: Rows, vocabulary
) -> None:
    session, rows = open_session(CHOICE), new_rows(4)
    step = session.look_ahead(ids("aqq"), rows)
    assert step.states == (READY, READY, UNREACHABLE, UNREACHABLE)
    assert legal(rows[1], vocabulary) == {*b"b"}, "the target distribution that rejects the draft is the real one"
    assert all((row == -1).all() for row in rows[2:]), "fillers keep a softmax finite"


@pytest.mark.contract("MSK-4", "SPC-5")
def test_positions_behind_an_accepted_eos_are_unreachable(open_session: Opener, new_rows: Rows) -> None:
    session, rows = open_session(CHOICE), new_rows(5)
    step = session.look_ahead([*ids("ab"), EOS, ord("c")], rows)
    assert step.states == (READY, READY, READY, UNREACHABLE, UNREACHABLE)
    assert not session.terminated


@pytest.mark.contract("MSK-4")
def test_padding_drafts_are_illegal(open_session: Opener, new_rows: Rows) -> None:
    assert open_session(CHOICE).look_ahead([-1, -1], new_rows(3)).states == (READY, UNREACHABLE, UNREACHABLE)


@pytest.mark.contract("MSK-3", "MSK-4", "MSK-5")
def test_dead_end_stops_lookahead_and_its_row_is_a_filler(open_session: Opener, new_rows: Rows) -> None:
    every_ordinary = ", ".join(str(token) for token in [*range(256), *range(259, 268)])
    grammar = OutputConstraint.grammar(f'root ::= "a" ("b" | "c" ExcludeToken({every_ordinary}))')
    session, rows = open_session(grammar), new_rows(4)
    step = session.look_ahead(ids("acx"), rows)
    assert step.states == (READY, READY, DEAD_END, UNREACHABLE)
    assert step.dead_end == 2
    assert (rows[2] == -1).all()
    assert session.look_ahead(ids("ab"), new_rows(3)).states == (READY, READY, READY), "the live branch is untouched"


@pytest.mark.contract("SES-2", "SES-3", "SES-6")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drafts=st.lists(st.sampled_from([*b"abcxyz", EOS, -1]), max_size=5))
def test_lookahead_and_discarded_previews_change_nothing(
    open_session: Opener, new_rows: Rows, drafts: list[int]
) -> None:
    session, before, after = open_session(CHOICE), new_rows(1), new_rows(1)
    session.look_ahead((), before)
    session.look_ahead(drafts, new_rows(len(drafts) + 1))
    session.preview(drafts)
    session.discard()
    session.look_ahead((), after)
    assert (before[0] == after[0]).all()
    assert session.record.branch == "undecided", "the record shows committed facts only"


@pytest.mark.contract("SES-5", "END-1", "END-2", "OBS-1")
def test_commit_of_a_shorter_prefix_gives_the_rest_of_the_preview_back(
    open_session: Opener, new_rows: Rows, vocabulary
) -> None:
    session, rows = open_session(CHOICE), new_rows(1)
    assert session.preview([*ids("abc"), EOS]) == 4
    session.commit(2)
    assert (session.record.complete, session.record.terminated) == (True, False)
    session.look_ahead((), rows)
    assert legal(rows[0], vocabulary) == {*b"c", EOS}
    assert session.preview([ord("c"), EOS]) == 2
    session.commit(2)
    assert (session.record.complete, session.record.terminated, session.record.branch) == (True, True, "content")


@pytest.mark.contract("SPC-5")
def test_nothing_behind_eos_is_legal(open_session: Opener) -> None:
    session = open_session(CHOICE)
    assert session.preview([*ids("ab"), EOS, ord("c")]) == 3


@pytest.mark.contract("SES-2")
def test_mask_over_an_uncommitted_preview_is_refused(open_session: Opener, new_rows: Rows) -> None:
    session = open_session(CHOICE)
    session.preview(ids("a"))
    with pytest.raises(IllegalTransition):
        session.look_ahead((), new_rows(1))
    assert session.state is State.PREVIEWING
    with pytest.raises(MatcherInconsistency):
        session.commit(2)


@pytest.mark.contract("ERR-4", "ENG-4")
def test_failure_keeps_the_committed_record_and_releases_the_matcher(open_session: Opener, new_rows: Rows) -> None:
    session = open_session(CHOICE)
    session.preview(ids("ab"))
    session.commit(2)
    session.preview(ids("c"))
    session.fail(ConstraintDeadEnd(2))
    assert session.record.error == ConstraintDeadEnd(2).to_json()
    assert session.record.complete
    with pytest.raises(MatcherInconsistency):
        session.look_ahead((), new_rows(1))
    session.finish()
    assert session.state is State.FAILED


@pytest.mark.contract("END-3")
@pytest.mark.parametrize(("literals", "complete"), [(["a"], False), (["", "a"], True)])
def test_empty_output_is_complete_only_if_the_language_holds_it(
    open_session: Opener, literals: list[str], complete: bool
) -> None:
    session = open_session(OutputConstraint.choice(literals))
    session.finish()
    assert session.record.complete is complete


@pytest.mark.contract("OBS-1")
def test_record_counts_masks_computed_and_bytes_shipped(open_session: Opener, new_rows: Rows, vocabulary) -> None:
    session = open_session(CHOICE)
    session.look_ahead(ids("aq"), new_rows(3))
    session.look_ahead((), new_rows(1))
    assert session.record.mask_positions == 3
    assert session.record.mask_bytes == 4 * vocabulary.words * 4
