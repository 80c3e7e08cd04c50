"""What a command reads: files, standard input, and the names of embedded models."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

from ninfer_vllm.constraint import UnknownKeywords
from ninfer_vllm.limits import SCHEMA_TEXT_CHARS

STANDARD_INPUT = "-"
EMBEDDED = {"embedded": "smollm2", "smollm2": "smollm2", "tiny-qwen3": "tiny-qwen3"}
"""Names that stand for an embedded model wherever a model is named."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_BYTES = 4 * SCHEMA_TEXT_CHARS
"""Bytes of the largest text any language takes: a character has up to four."""
PATH_STARTS = ("/", "./", "../")


class UnusableInput(Exception):
    """Input that cannot even be judged: a missing file, bytes that are no text, an unknown kind."""


def add_unknown_keywords(parser: argparse._ActionsContainer) -> None:
    """Add the option of every command that reads a JSON Schema."""
    parser.add_argument(
        "--unknown-schema-keywords",
        choices=get_args(UnknownKeywords),
        default="refuse",
        help="what an unrecognised JSON Schema keyword does (default refuse)",
    )


def read_text(name: str) -> str:
    """The exact text of a file, line ends included; `-` is standard input.

    Errors: UnusableInput.
    """
    try:
        data = _read(name)
    except OSError as error:
        raise UnusableInput(f"{name or 'an empty name'}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise UnusableInput(f"{name}: larger than {MAX_BYTES} bytes, which no constraint may be")
    if data.startswith(BYTE_ORDER_MARK):
        raise UnusableInput(f"{name}: starts with a byte order mark; save it as UTF-8 without one")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{name}: not UTF-8 at byte {error.start}") from None


def _read(name: str) -> bytes:
    """At most one byte more than is ever judged, so that an endless file ends."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(name).open("rb") as file:
        return file.read(MAX_BYTES + 1)


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
