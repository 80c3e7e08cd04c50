"""Where commands print for people: colour on a terminal, plain lines into a pipe."""

from __future__ import annotations

from rich.console import Console


def screen(*, stderr: bool = False) -> Console:
    """A console that breaks no line: what it prints is read by programs too."""
    return Console(stderr=stderr, soft_wrap=True)
