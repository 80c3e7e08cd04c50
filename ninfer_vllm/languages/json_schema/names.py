"""Names of subschemas: the JSON Pointer of a written one, and what is derived from written ones.

A name is a mark without a slash and the pointer that it is derived from. A pointer is empty or begins with a slash, so
that no mark is taken for a part of one.
"""

from __future__ import annotations

NEGATION = "!"
DERIVATION = "="

ANY_VALUE = f"{DERIVATION}any"
"""The subschema that admits everything."""

NO_VALUE = f"{DERIVATION}none"
"""The subschema that admits nothing."""


def negated(name: str) -> str:
    """The name of what a subschema does not admit."""
    if name in (ANY_VALUE, NO_VALUE):
        return NO_VALUE if name == ANY_VALUE else ANY_VALUE
    return name.removeprefix(NEGATION) if is_negated(name) else NEGATION + name


def is_negated(name: str) -> bool:
    """Whether the name is that of a negation."""
    return name.startswith(NEGATION)


def derived(mark: str, name: str) -> str:
    """The name of a subschema made from another one; the mark tells apart those of one origin."""
    assert "/" not in mark
    return f"{DERIVATION}{mark}:{name}"


def place(name: str) -> str:
    """The pointer in the caller's document that a name is derived from."""
    start = name.find("/")
    return name[start:] if start >= 0 else ""
