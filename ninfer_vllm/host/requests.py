"""From a request's sampling parameters to its constraint; refuses what contradicts one (REQ-2, REQ-7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vllm.sampling_params import SamplingParams, StructuredOutputsParams

from ninfer_vllm.constraint import Constraint, OutputConstraint, ToolConstraint, UnknownKeywords
from ninfer_vllm.errors import ConflictingConstraint

PAYLOAD_KEY = "ninfer"
"""Key in `extra_args` under which the lowered grammar travels to the engine core."""

MEMBERS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


class ChatTurn:
    """Mark in `extra_args` of a request that continues a rendered chat; never leaves the API process.

    It is an object, not plain data, so that no client can send one.
    """


CHAT_TURN = ChatTurn()


def is_chat_turn(params: SamplingParams) -> bool:
    """Whether the parameters were made for a chat turn of the HTTP server."""
    return (params.extra_args or {}).get(PAYLOAD_KEY) is CHAT_TURN


def constraint_of(params: SamplingParams, unknown_keywords: UnknownKeywords) -> Constraint | None:
    """The constraint of a request, or None for an unconstrained one.

    Errors: ConstraintError where the constraint field is malformed.
    """
    given: Any = params.structured_outputs
    if given is None or isinstance(given, OutputConstraint | ToolConstraint):
        return given
    return from_structured_outputs(given, unknown_keywords)


def from_structured_outputs(
    given: StructuredOutputsParams, unknown_keywords: UnknownKeywords = "refuse"
) -> OutputConstraint | None:
    """The constraint of the host's own `structured_outputs` value.

    Errors: ConflictingConstraint for two members, or for a member whose meaning this product does not keep.
    """
    present = [name for name in MEMBERS if getattr(given, name) is not None]
    if not present:
        return None
    if len(present) > 1:
        raise ConflictingConstraint("structured_outputs", f"only one of {', '.join(present)} may be given")
    _refuse_modifiers(given)
    (member,) = present
    return _from_member(member, getattr(given, member), unknown_keywords)


def refuse_conflicts(params: SamplingParams, eos_ids: Iterable[int]) -> None:
    """Refuse sampling parameters that contradict any constraint, by name (REQ-7).

    Errors: ConflictingConstraint.
    """
    if params.stop:
        raise ConflictingConstraint("stop", "stop strings cannot be combined with a constraint: it ends by itself")
    if set(params.stop_token_ids or ()) - set(eos_ids):
        raise ConflictingConstraint("stop_token_ids", "custom stop tokens cannot be combined with a constraint")
    if params.ignore_eos:
        raise ConflictingConstraint("ignore_eos", "a constrained output ends by its end token")
    if params.include_stop_str_in_output:
        raise ConflictingConstraint("include_stop_str_in_output", "a constrained output publishes no stop text")
    # The host's own parsers of a chat turn ask for special tokens too; what a user asked for is refused before them.
    if not params.skip_special_tokens and not is_chat_turn(params):
        raise ConflictingConstraint("skip_special_tokens", "a constrained output publishes no special tokens")


def marker_params() -> StructuredOutputsParams:
    """What the host sees of a constrained request: that there is a constraint, and nothing of it."""
    return StructuredOutputsParams(grammar=PAYLOAD_KEY)


def _refuse_modifiers(given: StructuredOutputsParams) -> None:
    if given.whitespace_pattern is not None:
        raise ConflictingConstraint(
            "structured_outputs.whitespace_pattern", "JSON is written compact; white space patterns are not supported"
        )
    if given.disable_additional_properties:
        raise ConflictingConstraint(
            "structured_outputs.disable_additional_properties",
            'would change the schema; state "additionalProperties": false in it',
        )


def _from_member(member: str, value: Any, unknown_keywords: UnknownKeywords) -> OutputConstraint:
    if member == "json":
        return OutputConstraint.json_schema(value, unknown_keywords=unknown_keywords)
    if member == "json_object":
        if value is not True:
            raise ConflictingConstraint("structured_outputs.json_object", "must be true where it is given")
        return OutputConstraint.json_object()
    if member == "regex":
        return OutputConstraint.regex(value)
    if member == "choice":
        return OutputConstraint.choice(value)
    if member == "grammar":
        return OutputConstraint.grammar(value)
    raise ConflictingConstraint(
        "structured_outputs.structural_tag", "structural tags are not supported; use a grammar, or tools with a schema"
    )
