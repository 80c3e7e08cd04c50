"""The tool choice `allowed_tools` of the Chat protocol, which the host's request class does not know (TOOL-14)."""

from __future__ import annotations

from typing import Any

from vllm.exceptions import VLLMValidationError

from ninfer_vllm.host.requested import ALLOWED_FIELD

VALIDATOR = "check_tool_usage"


def keep_allowed_tools(request_class: Any) -> Any:
    """The same class, whose check of tools moves such a choice into a field of ours before it looks at the others."""
    decorator = request_class.__pydantic_decorators__.model_validators[VALIDATOR]
    original = decorator.func

    def check(data: Any) -> Any:
        if isinstance(data, dict):
            _move_allowed_tools(data)
        try:
            return original(data)
        except (KeyError, TypeError, AttributeError) as fault:
            raise VLLMValidationError(f"a tool is malformed: {fault}", parameter="tools") from None

    decorator.func = check
    request_class.model_rebuild(force=True)
    return request_class


def _move_allowed_tools(data: dict[str, Any]) -> None:
    choice = data.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools", choice)
        mode = allowed.get("mode", "auto") if isinstance(allowed, dict) else None
        data["tool_choice"] = mode if mode in ("auto", "required") else "auto"
        data[ALLOWED_FIELD] = choice
