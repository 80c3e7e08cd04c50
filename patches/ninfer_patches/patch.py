"""What one patch declares: the seam it replaces, the source it was written against, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patch:
    """One replaced binding of the host.

    `target` and `source` are written "module:Qualified.name". `target` is the binding that is replaced, `source` the
    definition whose digest is recorded a host version; they differ where a module binds a name by value.
    `replacement` names a function that takes the original and returns what is bound instead; it is imported when the
    target's module is, not before.
    """

    target: str
    replacement: str
    why: str
    keeps: str
    remove_when: str
    source: str = ""

    @property
    def definition(self) -> str:
        """The definition whose digest is recorded."""
        return self.source or self.target


def split(path: str) -> tuple[str, str]:
    """Module and qualified name of "module:Qualified.name"."""
    module, _, name = path.partition(":")
    return module, name
