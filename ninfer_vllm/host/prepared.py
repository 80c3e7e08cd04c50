"""HTTP requests under preparation: what was found out about each, from its arrival to its answer."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ninfer_vllm.constraint import Constraint, OutputConstraint, ToolConstraint
from ninfer_vllm.host.events import OutputParser
from ninfer_vllm.host.http_records import Records
from ninfer_vllm.session.existing import Existing

if TYPE_CHECKING:
    from ninfer_vllm.host.prepare import Preparer


@dataclass(slots=True, eq=False)
class Prepared:
    """One request: what it asks for, and what was observed of its samples."""

    preparer: Preparer
    body: OutputConstraint | None = None
    tools: ToolConstraint | None = None
    """The request's tools, where this product reads and writes them."""
    enforced: bool = False
    """Whether any constraint is executed; tools alone may run free (TOOL-2)."""
    existing: Existing = ()
    records: Records = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    """Why each sample ended, as the engine said it."""

    @property
    def constraint(self) -> Constraint | None:
        """The constraint that is executed."""
        return (self.tools or self.body) if self.enforced else None

    def parser(self, prompt: Sequence[int]) -> OutputParser:
        """A parser of one output behind a rendered prompt."""
        return self.preparer.parser(prompt, self.tools, self.existing)


class ByIdentity:
    """Notes about requests, for as long as each request lives; the host's request classes have no hash."""

    def __init__(self) -> None:
        self._notes: dict[int, Prepared] = {}

    def note(self, request: Any, prepared: Prepared) -> None:
        """Remember what is known of a request."""
        key = id(request)
        if key not in self._notes:
            forget: Callable[..., object] = self._notes.pop
            weakref.finalize(request, forget, key, None)
        self._notes[key] = prepared

    def of(self, request: Any) -> Prepared | None:
        """What is known of a request, if anything."""
        return self._notes.get(id(request))


REQUESTS = ByIdentity()
"""The requests of this process."""
