"""One sample's session as the grammar object that the host's scheduler carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from ninfer_vllm.errors import MatcherInconsistency
from ninfer_vllm.session.session import OutputSession

if TYPE_CHECKING:
    import torch


class SessionGrammar(StructuredOutputGrammar):
    """Carries the session from the manager to the scheduler and back; the manager drives it, not the host."""

    def __init__(self, session: OutputSession) -> None:
        self.session = session

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Commit the first tokens of the preview, which the scheduler's update made just before."""
        session = self.session
        if tuple(tokens) != session.previewed[: len(tokens)]:
            raise MatcherInconsistency(f"request {request_id}: tokens were committed without a preview of them")
        session.commit(len(tokens))
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """All drafts: an illegal one keeps its place and is rejected by the masked target (SPC-3)."""
        return tokens

    def rollback(self, num_tokens: int) -> None:
        """Never needed: previews are discarded, committed tokens stay."""
        raise MatcherInconsistency("the host asked to roll back committed tokens")

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Fill one row without drafts."""
        self.session.look_ahead((), [bitmask[batch_index].numpy()])

    def is_terminated(self) -> bool:
        """Whether EOS has been accepted."""
        return self.session.terminated

    def reset(self) -> None:
        """Never needed: a session belongs to one sample."""
        raise MatcherInconsistency("the host asked to reset a session")
