"""The hermes dialect: a call is one JSON object with the name and the arguments."""

from __future__ import annotations

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.grammar.ir import Grammar, Rule, sequence, text
from ninfer_vllm.languages.json_schema import lower_json_object
from ninfer_vllm.languages.json_schema.literals import spell
from qwen_frontend.tools.contract import Tool, placed

ANY_OBJECT = JsonOptions(whitespace="flexible")


def opening(name: str) -> str:
    """What stands before the arguments."""
    return f'\n{{"name": {spell(name)}, "arguments": '


CLOSING = "}\n"


def call_text(tool: Tool) -> Grammar:
    """What stands between the control tokens of a call of one tool.

    Errors: ConstraintError with its place in the tools.
    """
    arguments = _strict(tool) if tool.is_strict else lower_json_object(ANY_OBJECT)
    name = "call"
    while name in arguments.rules:
        name += "_"
    call = sequence(text(opening(tool.name)), Rule(arguments.root), text(CLOSING))
    return Grammar({name: call, **arguments.rules}, name)


def _strict(tool: Tool) -> Grammar:
    parameters = tool.object
    try:
        return parameters.json()
    except ConstraintError as error:
        raise placed(error, tool.schema_pointer) from None
