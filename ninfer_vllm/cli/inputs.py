"""What a command reads: files, standard input, and the names of embedded models."""

from __future__ import annotations

import sys
from pathlib import Path

STANDARD_INPUT = "-"
EMBEDDED = {"embedded": "smollm2", "smollm2": "smollm2", "tiny-qwen3": "tiny-qwen3"}
"""Names that stand for an embedded model wherever a model is named."""
PATH_STARTS = ("/", "./", "../")


class UnusableInput(Exception):
    """Input that cannot even be judged: a missing file, bytes that are no text, an unknown kind."""


def read_text(name: str) -> str:
    """The exact text of a file, line ends included; `-` is standard input.

    Errors: UnusableInput.
    """
    try:
        data = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
    except OSError as error:
        raise UnusableInput(f"{name}: {error.strerror or error}") from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{name}: not UTF-8 at byte {error.start}") from None


def model_of(name: str) -> str:
    """A model's folder or hub name; an embedded model is made first, with progress on the error stream.

    Errors: ModelBuildError; UnusableInput for a path that leads nowhere, which the host would take for a hub name.
    """
    if name not in EMBEDDED:
        if name.startswith(PATH_STARTS) and not Path(name).exists():
            raise UnusableInput(f"{name}: no such model folder")
        return name
    from ninfer_vllm.embedded import build

    return str(build(EMBEDDED[name], progress=lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True)))
