"""Everything that keeps a constraint from being supported, not only the first fault."""

from __future__ import annotations

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.grammar.wire import encode
from ninfer_vllm.languages import json_schema
from ninfer_vllm.languages.lowering import lower


def problems_of(constraint: OutputConstraint) -> list[ConstraintError]:
    """Why the constraint is refused; none where it is supported.

    Of a JSON Schema, every refusal; a text of another language is read up to its first fault.
    """
    if constraint.kind == "json_schema":
        found = json_schema.problems(constraint.source, constraint.options)
        if found:
            return found
    try:
        encode(prune(lower(constraint)))
    except ConstraintError as fault:
        return [fault]
    return []
