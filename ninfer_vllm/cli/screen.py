"""Where commands print for people: colour and progress on a terminal, plain lines into a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Told = Callable[[str], None]
"""Says what begins now."""


def screen(*, stderr: bool = False) -> Console:
    """A console that breaks no line: what it prints is read by programs too."""
    return Console(stderr=stderr, soft_wrap=True)


@contextmanager
def steps(command: str, total: int) -> Iterator[Told]:
    """Progress through a known number of steps, on the error stream: a bar with its time, or a line a step."""
    console = screen(stderr=True)
    if not console.is_terminal:
        yield lambda step: _line(console, f"{command}: {step} …")
        return
    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(command, total=total)
        begun = 0

        def told(step: str) -> None:
            nonlocal begun
            progress.update(bar, completed=begun, description=step)
            begun += 1

        yield told


@contextmanager
def working(name: str) -> Iterator[Told]:
    """Lines about work whose length is not known, on the error stream, with a sign of life where a person looks."""
    console = screen(stderr=True)
    if not console.is_terminal:
        yield lambda step: _line(console, f"{name}: {step}")
        return
    with console.status(name) as status:

        def told(step: str) -> None:
            _line(console, f"{name}: {step}")
            status.update(f"{name}: working")

        yield told


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)
    console.file.flush()
