"""What a request of an OpenAI protocol asks of its output, read from its fields; Anthropic's arrive as chats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ninfer_vllm.constraint import OutputConstraint, ToolChoice, ToolConstraint
from ninfer_vllm.errors import ConflictingConstraint, InvalidTools
from ninfer_vllm.host.options import PluginOptions
from ninfer_vllm.host.requests import from_structured_outputs

ALLOWED_FIELD = "ninfer_allowed_tools"
"""Where a chat request keeps the `allowed_tools` of a tool choice that the host's own class has no room for."""

REMOVED_FIELDS = {
    "guided_json": "structured_outputs.json",
    "guided_regex": "structured_outputs.regex",
    "guided_choice": "structured_outputs.choice",
    "guided_grammar": "structured_outputs.grammar",
    "guided_decoding_backend": "structured_outputs",
    "guided_whitespace_pattern": "structured_outputs",
}

CHOICES_OF_CALLS = ("function", "allowed_tools")
"""Types of tool choices that name functions."""

BUDGET_FIELD = "thinking_token_budget"
"""Bounds the thinking block, as in Chat; the host's class of Responses has no such field."""

FLAT_TOOL = re.compile(r"^(/[0-9]+)/function(?=/|$)")
"""A place in a tool of the Chat protocol; in Responses the function's members are the tool's own."""


def is_responses(request: Any) -> bool:
    """Whether the request is one of the Responses protocol."""
    return "input" in type(request).model_fields


def is_chat(request: Any) -> bool:
    """Whether the request is a chat turn, of either protocol."""
    return is_responses(request) or "messages" in type(request).model_fields


def origin_of(request: Any) -> str | None:
    """The request field a body constraint comes from, as the first part of an error's path (JSD-8)."""
    name, form = _format_of(request)
    if form is not None and form.type == "json_schema":
        return f"{name}/schema" if is_responses(request) else f"{name}/json_schema/schema"
    if form is not None and form.type != "text":
        return name
    given = request.structured_outputs
    if given is None:
        return None
    members = [member for member in ("json", "regex", "choice", "grammar") if getattr(given, member) is not None]
    return f"structured_outputs/{members[0]}" if len(members) == 1 else "structured_outputs"


def body_of(request: Any, options: PluginOptions) -> OutputConstraint | None:
    """The body constraint, if there is one.

    Errors: ConstraintError.
    """
    _refuse_removed_fields(request)
    name, form = _format_of(request)
    if form is not None and form.type != "text" and request.structured_outputs is not None:
        raise ConflictingConstraint("structured_outputs", f"{name} already states a constraint; give one of them")
    given = request.extract_structured_outputs()
    return None if given is None else from_structured_outputs(given, options.unknown_schema_keywords)


def tools_of(request: Any, body: OutputConstraint | None, options: PluginOptions) -> ToolConstraint | None:
    """The tools of a chat turn with their calling policy, if there are any; `body` is what else the output may be.

    Errors: ConflictingConstraint.
    """
    declared = _declarations(request) if is_chat(request) else []
    if not declared:
        return None
    policy = _policy(request)
    if request.parallel_tool_calls is False:
        policy = replace(policy, parallel=False)
    policy = replace(policy, enforcement=options.tool_enforcement)
    dialect = None if options.tool_dialect == "auto" else options.tool_dialect
    return ToolConstraint(declared, policy, body, dialect, options.unknown_schema_keywords)


def refuse_call_of_no_tool(request: Any) -> None:
    """Refuse a choice of calls beside no function, which the host would answer with content (TOOL-5).

    Errors: InvalidTools.
    """
    if not is_chat(request) or _declarations(request):
        return
    choice = request.tool_choice
    if choice == "required" or getattr(choice, "type", None) in CHOICES_OF_CALLS:
        raise InvalidTools("", "the tool choice asks for calls, but no function is declared")


def asks_for_tool_constraint(tools: ToolConstraint, request: Any) -> bool:
    """Whether the request itself asks for more than free calls."""
    policy = tools.policy
    asked = policy.mode == "required" or policy.allowed_names is not None or not policy.parallel
    return asked or tools.body is not None or any(tool["function"].get("strict") for tool in _declarations(request))


def budget_of(request: Any) -> int | None:
    """The thinking budget of a Responses turn, where it states one (THK-7).

    Errors: ConflictingConstraint for a value that is none.
    """
    stated = (request.model_extra or {}).get(BUDGET_FIELD) if is_responses(request) else None
    if stated is None or stated == -1:
        return None
    if isinstance(stated, bool) or not isinstance(stated, int) or stated < 0:
        raise ConflictingConstraint(BUDGET_FIELD, "must be a number of tokens, or -1 for no bound")
    return stated


def tool_place(request: Any, pointer: str) -> str:
    """The path of a place in the list of tools, in the protocol's own spelling."""
    return "tools" + (FLAT_TOOL.sub(r"\1", pointer) if is_responses(request) else pointer)


def refuse_conflicting_fields(request: Any) -> None:
    """Refuse what contradicts any constraint and is no sampling parameter of the host (REQ-7).

    Errors: ConflictingConstraint.
    """
    if getattr(request, "use_beam_search", False):
        raise ConflictingConstraint("use_beam_search", "beam search cannot be combined with a constraint")
    if getattr(request, "echo", False):
        raise ConflictingConstraint("echo", "cannot be combined with a constraint")
    if getattr(request, "suffix", None) is not None:
        raise ConflictingConstraint("suffix", "cannot be combined with a constraint")
    if is_chat(request) and "skip_special_tokens" in request.model_fields_set and not request.skip_special_tokens:
        raise ConflictingConstraint("skip_special_tokens", "a constrained output publishes no special tokens")


def _format_of(request: Any) -> tuple[str, Any]:
    """The standard field that can state a body constraint, and its value."""
    if is_responses(request):
        return "text/format", None if request.text is None else request.text.format
    return "response_format", request.response_format


def _refuse_removed_fields(request: Any) -> None:
    for name in request.model_extra or ():
        if name in REMOVED_FIELDS:
            raise ConflictingConstraint(name, f"this field does not exist; use {REMOVED_FIELDS[name]}")


def _declarations(request: Any) -> list[dict[str, Any]]:
    """The functions that the request declares, in the Chat protocol's form and in their order."""
    if is_responses(request):
        from vllm.tool_parsers.utils import iter_response_function_tool_dicts

        return [_declared(tool) for tool in iter_response_function_tool_dicts(request.tools)]
    return [_declared(vars(tool.function)) for tool in request.tools or ()]


def _declared(function: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: function[name] for name in ("name", "description", "parameters") if function.get(name) is not None}
    return {"type": "function", "function": {**kept, "strict": bool(function.get("strict"))}}


def _policy(request: Any) -> ToolChoice:
    allowed = (request.model_extra or {}).get(ALLOWED_FIELD)
    if allowed is not None:
        return ToolChoice.of(allowed)
    choice = request.tool_choice
    if choice is None or isinstance(choice, str):
        return ToolChoice.of(choice or "auto")
    return ToolChoice.of(choice.model_dump())
