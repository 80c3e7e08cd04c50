"""Content that the prompt already holds: a new matcher is taken over it, once, before anything is generated (CON)."""

from __future__ import annotations

from collections.abc import Iterable

from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.errors import InvalidContinuation

Existing = tuple[bytes | int, ...]
"""Existing content in order: text as bytes, a control token by its id."""


def continue_from(matcher: Matcher, existing: Iterable[bytes | int]) -> None:
    """Take a new matcher over existing content; nothing of it is ever rolled back.

    Errors: InvalidContinuation at the first byte, or control token, with which the content leaves the language.
    """
    offset = 0
    for part in existing:
        if isinstance(part, int):
            if not matcher.accept(part):
                raise InvalidContinuation("a tool call cannot begin here", offset)
            continue
        accepted = matcher.accept_bytes(part)
        if accepted < len(part):
            raise InvalidContinuation("the text is no prefix of the language", offset + accepted)
        offset += len(part)
    matcher.forget()
