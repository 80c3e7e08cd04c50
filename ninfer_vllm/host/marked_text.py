"""The host's text of a free output, cut into what a parser of tokens reads: markers by their ids, and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping


class MarkedText:
    """Finds markers in text that comes in pieces; a piece may end in the middle of one.

    `markers` are visible texts of control tokens with their ids. Free outputs are read as text because stop strings and
    the choice of published special tokens are the host's, and the text already shows them.
    """

    def __init__(self, markers: Mapping[str, int]) -> None:
        self._markers = markers
        self._pattern = re.compile("|".join(map(re.escape, markers))) if markers else None
        self._held = ""

    def parts(self, text: str, *, last: bool) -> Iterator[int | bytes]:
        """The parts that more text settles; `last` settles everything."""
        text = self._held + text
        self._held = ""
        at = 0
        for found in self._pattern.finditer(text) if self._pattern is not None else ():
            if found.start() > at:
                yield text[at : found.start()].encode()
            yield self._markers[found.group()]
            at = found.end()
        rest = text[at:]
        keep = 0 if last else self._num_open(rest)
        self._held = rest[len(rest) - keep :]
        if len(rest) > keep:
            yield rest[: len(rest) - keep].encode()

    def _num_open(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of a marker."""
        longest = max(map(len, self._markers), default=0)
        for length in range(min(longest - 1, len(text)), 0, -1):
            if any(marker.startswith(text[-length:]) for marker in self._markers):
                return length
        return 0
