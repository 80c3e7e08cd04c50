"""From the text of a file to the constraint it states."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Literal, get_args

from ninfer_vllm.cli.inputs import STANDARD_INPUT, UnusableInput
from ninfer_vllm.constraint import OutputConstraint, ToolChoice, ToolConstraint, ToolMode, UnknownKeywords
from ninfer_vllm.errors import InvalidChoice, InvalidTools, MalformedSchemaText
from ninfer_vllm.languages.json_schema.document import read_document

SourceKind = Literal["json_schema", "grammar", "regex", "choice"]
SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)
POLICIES: tuple[ToolMode, ...] = get_args(ToolMode)
SUFFIXES: dict[str, SourceKind] = {".gbnf": "grammar", ".regex": "regex", ".json": "json_schema"}


def kind_of(name: str, text: str) -> SourceKind:
    """The kind that a file's name tells; a JSON file that holds a list is a choice.

    Errors: UnusableInput where the name tells nothing.
    """
    kind = None if name == STANDARD_INPUT else SUFFIXES.get(PurePath(name).suffix.lower())
    if kind is None:
        raise UnusableInput(f"{name}: say what it holds with --kind {{{','.join(SOURCE_KINDS)}}}")
    return "choice" if kind == "json_schema" and text.lstrip().startswith("[") else kind


def constraint_from(kind: SourceKind, text: str, unknown_keywords: UnknownKeywords) -> OutputConstraint:
    """The constraint of a text; the line end that closes a regex file is no part of the expression.

    Errors: ConstraintError.
    """
    if kind == "grammar":
        return OutputConstraint.grammar(text)
    if kind == "regex":
        return OutputConstraint.regex(text.removesuffix("\n").removesuffix("\r"))
    if kind == "choice":
        return OutputConstraint.choice(_literals(text))
    return OutputConstraint.json_schema(text, unknown_keywords=unknown_keywords)


def tools_from(
    text: str, choice: str, body: OutputConstraint | None, unknown_keywords: UnknownKeywords
) -> ToolConstraint:
    """The tools of a JSON text, a list of declarations as Chat takes them; `choice` is a policy or a tool's name.

    Errors: InvalidTools, ConflictingConstraint; more where the model's own dialect is known.
    """
    try:
        declared = read_document(text)
    except MalformedSchemaText as error:
        raise InvalidTools("", f"line {error.line}, column {error.column}: {error.reason}") from None
    if not isinstance(declared, list):
        raise InvalidTools("", "the tools must be a list")
    policy = next((ToolChoice(mode) for mode in POLICIES if mode == choice), None) or ToolChoice.named(choice)
    return ToolConstraint(text, policy, body, unknown_keywords=unknown_keywords)


def _literals(text: str) -> list[Any]:
    try:
        literals = read_document(text)
    except MalformedSchemaText as error:
        where = f"line {error.line}, column {error.column}"
        raise InvalidChoice(f"expected a JSON list of strings; {where}: {error.reason}") from None
    if not isinstance(literals, list):
        raise InvalidChoice("expected a JSON list of strings")
    return literals
