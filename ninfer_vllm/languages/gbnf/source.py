"""A grammar text that knows the line and column of each offset."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from ninfer_vllm.errors import InvalidGrammar
from ninfer_vllm.spelling import LINE_END


@dataclass(frozen=True, slots=True)
class Source:
    """The text with the offsets at which its lines begin."""

    text: str
    line_starts: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Source:
        """Find the lines of a text: LF, CR LF and CR end one."""
        return cls(text, (0, *(found.end() for found in LINE_END.finditer(text))))

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1; columns count characters."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def error(self, offset: int, reason: str) -> InvalidGrammar:
        """The refusal of the text at an offset."""
        return InvalidGrammar(reason, *self.place(offset))
