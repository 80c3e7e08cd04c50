"""The xml dialect: one element a parameter, strings as raw text between one line break before and one after.

Theory of operation. A raw value ends at the first LF `</parameter>`, so no value may hold that text; grammar and parser
share this rule. The delimiter begins with a line break and has no other, so that it can not overlap itself: whatever
lies before its first occurrence is the value, whole (TOOL-6, TOOL-8).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ninfer_vllm.automata.algebra import complement, minimise
from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.lazy import determinise
from ninfer_vllm.automata.nfa import NfaBuilder
from ninfer_vllm.errors import ConstraintError, UnrepresentableToolValue, UnsupportedSchema
from ninfer_vllm.grammar.ir import Chars, Expr, Grammar, Regular, Repeat, alternation, sequence, text
from ninfer_vllm.languages.json_schema.members import MemberTexts
from ninfer_vllm.languages.json_schema.shapes import Shape
from qwen_frontend.tools.contract import Tool, placed

OPEN_FUNCTION, CLOSE_FUNCTION = "<function=", "</function>"
OPEN_PARAMETER, CLOSE_PARAMETER = "<parameter=", "</parameter>"
END_OF_NAME = ">\n"
DELIMITER = "\n" + CLOSE_PARAMETER
NAME_CHARS = ANY - CharSet.from_chars(">\n")
"""Characters of a name: it ends at the first `>`, and stands on one line."""

WriteJson = Callable[[tuple[Shape, ...]], Expr]


@cache
def raw_values() -> Dfa:
    """Every text that holds no delimiter."""
    builder = NfaBuilder()
    start, end = builder.state(), builder.state()
    builder.move(start, ANY, start)
    builder.move(end, ANY, end)
    states = builder.chain(start, end, len(DELIMITER))
    for char, source, target in zip(DELIMITER, states, states[1:], strict=False):
        builder.move(source, CharSet.from_chars(char), target)
    return minimise(complement(determinise(builder.finish(start, end))))


def opening(name: str) -> str:
    """What stands before the parameters."""
    return f"\n{OPEN_FUNCTION}{name}{END_OF_NAME}"


CLOSING = f"{CLOSE_FUNCTION}\n"


def call_text(tool: Tool) -> Grammar:
    """What stands between the control tokens of a call of one tool.

    Errors: UnrepresentableToolValue, UnsupportedSchema and other ConstraintErrors with their place in the tools.
    """
    before, after = text(opening(tool.name)), text(CLOSING)
    if not tool.is_strict:
        return Grammar({"call": sequence(before, Repeat(_any_parameter(), 0, None), after)}, "call")
    parameters = tool.object
    try:
        members = parameters.framed(lambda member, write_json: _parameter(tool, member, write_json))
    except ConstraintError as error:
        raise placed(error, tool.schema_pointer) from None
    rules = dict(members.rules)
    rules[members.root] = sequence(before, rules[members.root], after)
    return Grammar(rules, members.root)


def is_name(name: str) -> bool:
    """Whether a name can be written."""
    return all(ord(char) in NAME_CHARS for char in name)


def raw_strings(tool: Tool, member: MemberTexts) -> Dfa:
    """The strings of a member that can be written raw.

    Errors, with their place in the schema: UnrepresentableToolValue for a listed string that cannot, or where none can;
    UnsupportedSchema for strings beside values that look the same; LimitExceeded.
    """
    for value in member.constants:
        if DELIMITER in value:
            pointer = tool.object.stated(value, member)
            raise UnrepresentableToolValue(pointer, f"a value with a line break before {CLOSE_PARAMETER} ends there")
    automaton = member.raw(raw_values())
    if automaton.is_empty:
        raise UnrepresentableToolValue(member.pointer, f"every string holds a line break before {CLOSE_PARAMETER}")
    if not member.is_apart(automaton):
        reason = "strings are written without quotes: they cannot be told from the other values of this union"
        raise UnsupportedSchema(member.pointer, "type", reason)
    return automaton


def _any_parameter() -> Expr:
    name = Repeat(Chars(NAME_CHARS), 0, None)
    return sequence(text(OPEN_PARAMETER), name, text(END_OF_NAME), Regular(raw_values()), text(DELIMITER + "\n"))


def _parameter(tool: Tool, member: MemberTexts, write_json: WriteJson) -> Expr:
    if not is_name(member.name):
        raise UnrepresentableToolValue(member.pointer, f"the name {member.name!r} cannot be written")
    values = [write_json(member.others)] if member.others else []
    if member.has_strings:
        values.insert(0, Regular(raw_strings(tool, member)))
    before = text(f"{OPEN_PARAMETER}{member.name}{END_OF_NAME}")
    return sequence(before, alternation(*values), text(DELIMITER + "\n"))
