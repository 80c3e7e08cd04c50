"""The one table of session states: which event leads where (SES-2)."""

from __future__ import annotations

from enum import Enum

from ninfer_vllm.errors import IllegalTransition


class State(Enum):
    """Where a session is between being asked for and its end."""

    WAITING = "waiting"
    OPEN = "open"
    LOOKING_AHEAD = "looking_ahead"
    PREVIEWING = "previewing"
    FINISHED = "finished"
    FAILED = "failed"


class Event(Enum):
    """What can happen to a session."""

    ATTACH = "attach"
    LOOK_AHEAD = "look_ahead"
    ROLL_BACK = "roll_back"
    PREVIEW = "preview"
    COMMIT = "commit"
    DISCARD = "discard"
    FINISH = "finish"
    FAIL = "fail"


TABLE: dict[tuple[State, Event], State] = {
    (State.WAITING, Event.ATTACH): State.OPEN,
    (State.OPEN, Event.LOOK_AHEAD): State.LOOKING_AHEAD,
    (State.LOOKING_AHEAD, Event.ROLL_BACK): State.OPEN,
    (State.OPEN, Event.PREVIEW): State.PREVIEWING,
    (State.PREVIEWING, Event.COMMIT): State.OPEN,
    (State.PREVIEWING, Event.DISCARD): State.OPEN,
    (State.WAITING, Event.FINISH): State.FINISHED,
    (State.OPEN, Event.FINISH): State.FINISHED,
    (State.WAITING, Event.FAIL): State.FAILED,
    (State.OPEN, Event.FAIL): State.FAILED,
}


def after(state: State, event: Event) -> State:
    """The state that `event` leads to.

    Errors: IllegalTransition where the table has no entry; the caller then changes nothing.
    """
    target = TABLE.get((state, event))
    if target is None:
        raise IllegalTransition(state.value, event.value)
    return target
