"""The session's table: what it allows, and that nothing else changes a state."""

from __future__ import annotations

import pytest

from ninfer_vllm.errors import IllegalTransition
from ninfer_vllm.session.states import TABLE, Event, State, after


@pytest.mark.contract("SES-2")
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_pair_leads_to_one_state_or_is_refused(state: State, event: Event) -> None:
    if (state, event) in TABLE:
        assert after(state, event) is TABLE[state, event]
    else:
        with pytest.raises(IllegalTransition, match=state.value):
            after(state, event)


@pytest.mark.contract("SES-2")
def test_lookahead_and_preview_exclude_each_other() -> None:
    assert (State.PREVIEWING, Event.LOOK_AHEAD) not in TABLE
    assert (State.LOOKING_AHEAD, Event.PREVIEW) not in TABLE


@pytest.mark.parametrize("state", [State.FINISHED, State.FAILED])
def test_nothing_leaves_an_end(state: State) -> None:
    assert not [event for event in Event if (state, event) in TABLE]
