"""What becomes of draft tokens inside an engine that runs beside the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.inspection import manager_of, scheduler_of


@dataclass(slots=True)
class Watched:
    """Drafts in the order in which they passed."""

    proposed: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    """Request, drafts: as the proposer made them, for constrained requests."""
    scheduled: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    """Request, drafts: as the next forward verifies them, for constrained requests."""
    states: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Request, names of the states of its mask rows, for steps with drafts."""


@contextmanager
def watching(llm: Any) -> Iterator[Watched]:
    """Note drafts and row states while inside."""
    scheduler, manager = scheduler_of(llm), manager_of(llm)
    update, masks = scheduler.update_draft_token_ids, manager.grammar_bitmask
    seen = Watched()

    def update_noted(drafts: Any) -> None:
        for request_id, tokens in zip(drafts.req_ids, drafts.draft_token_ids, strict=True):
            request = scheduler.requests.get(request_id)
            if request is not None and request.use_structured_output and not request.is_prefill_chunk and tokens:
                seen.proposed.append((request_id, tuple(tokens)))
        update(drafts)

    def masks_noted(requests: Any, request_ids: list[str], drafts: dict[str, list[int]]) -> Any:
        buffer = masks(requests, request_ids, drafts)
        for request_id in request_ids:
            if drafts.get(request_id):
                seen.scheduled.append((request_id, tuple(drafts[request_id])))
                states = manager.step_rows[request_id].states
                seen.states.append((request_id, tuple(state.name for state in states)))
        return buffer

    scheduler.update_draft_token_ids, manager.grammar_bitmask = update_noted, masks_noted
    try:
        yield seen
    finally:
        del scheduler.update_draft_token_ids, manager.grammar_bitmask
