"""Which branch a sample took: undecided, content or tools, from committed tokens alone (TOOL-12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ninfer_vllm.constraint import Frame
from ninfer_vllm.grammar.framing import AFTER_CLOSE
from ninfer_vllm.record import Branch


class BranchWatch:
    """Follows the tokens behind the thinking block.

    The first one that is no framing decides; a call after other content makes it `tools`, since a call was made.
    """

    def __init__(self, frame: Frame, tool_id: int | None) -> None:
        self._tool_id = tool_id
        self._framing = 0 if frame == "content" else len(AFTER_CLOSE)
        """Line breaks that may still belong to the frame."""
        self.branch: Branch = "undecided"

    def commit(self, tokens: Iterable[int], line_breaks: Mapping[int, int]) -> None:
        """Follow committed tokens; `line_breaks` counts the bytes of the tokens that are nothing but line breaks."""
        for token in tokens:
            if token == self._tool_id:
                self.branch = "tools"
            elif self.branch == "undecided":
                length = line_breaks.get(token, self._framing + 1)
                self._framing -= length
                if self._framing < 0:
                    self.branch = "content"
