"""Everything that keeps a constraint from being supported, not only the first fault."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConstraintError, UnsupportedSchema
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.grammar.wire import encode
from ninfer_vllm.languages.lowering import lower

MAX_PROBLEMS = 100
"""A schema with more of them needs another approach, not a longer list."""


def problems_of(constraint: OutputConstraint) -> list[ConstraintError]:
    """Why the constraint is refused; none where it is supported.

    Lowering stops at the first fault. An unsupported keyword says nothing about the others, so the schema is looked at
    again without it.
    """
    found: list[ConstraintError] = []
    while len(found) < MAX_PROBLEMS:
        fault = _first_fault(constraint)
        if fault is None:
            break
        found.append(fault)
        shorter = _without(constraint, fault)
        if shorter is None:
            break
        constraint = shorter
    return found


def _first_fault(constraint: OutputConstraint) -> ConstraintError | None:
    try:
        encode(prune(lower(constraint)))
    except ConstraintError as fault:
        return fault
    return None


def _without(constraint: OutputConstraint, fault: ConstraintError) -> OutputConstraint | None:
    """The schema without the keyword at fault, or None where there is no such keyword."""
    if constraint.kind != "json_schema" or not isinstance(fault, UnsupportedSchema):
        return None
    try:
        document = json.loads(constraint.source)
    except (ValueError, RecursionError):
        # What our own reader takes and the standard one does not: integers of thousands of digits, deep annotations.
        return None
    *parents, name = [part.replace("~1", "/").replace("~0", "~") for part in fault.pointer.split("/")[1:]] or [""]
    holder: Any = document
    for part in parents:
        holder = holder[int(part)] if isinstance(holder, list) else holder.get(part)
    if not isinstance(holder, dict) or name not in holder:
        return None
    del holder[name]
    try:
        return replace(constraint, source=json.dumps(document, ensure_ascii=False, allow_nan=False))
    except ValueError:
        # A number beyond the range of floats: what the schema still holds cannot be written back.
        return None
