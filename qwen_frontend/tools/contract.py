"""`ToolContract`: the declarations and the calling policy of a request, parsed once (TOOL-13)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from ninfer_vllm.constraint import Dialect, JsonOptions, OutputConstraint, ToolChoice, ToolConstraint
from ninfer_vllm.errors import ConstraintError, InvalidTools, MalformedSchemaText, UnsupportedSchema
from ninfer_vllm.languages.json_schema.document import Json, read_document
from ninfer_vllm.languages.json_schema.members import ClosedObject
from ninfer_vllm.spelling import child
from qwen_frontend.tools.hints import Hints

CACHED_CONTRACTS = 64
"""Contracts that are remembered, for as many requests that are prepared and not yet answered."""

CACHED_OBJECTS = 256
"""Reduced parameter schemas that are remembered: an agent sends the same tools with every request."""

NAME = re.compile(r"[\w./:-]+")
"""A tool's name, in letters of every script: what the protocols' own services take, and what servers of tools add."""

NO_PARAMETERS: Json = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, eq=False)
class Tool:
    """One declared function; no slots, for the sake of its cached properties."""

    name: str
    pointer: str
    """The place of the function's declaration in the list of tools."""
    is_strict: bool
    parameters: Json
    """The schema of its parameters; None without one."""
    options: JsonOptions

    @property
    def schema_pointer(self) -> str:
        """The place of the parameters' schema."""
        return child(self.pointer, "parameters")

    @cached_property
    def object(self) -> ClosedObject:
        """The parameters of a strict tool.

        Errors: ConstraintError with its place in the list of tools.
        """
        document = NO_PARAMETERS if self.parameters is None else self.parameters
        try:
            return _closed_object(_Document(document), self.options)
        except ConstraintError as error:
            raise placed(error, self.schema_pointer) from None

    @cached_property
    def hints(self) -> Hints:
        """The types of a non-strict tool's parameters."""
        return Hints(self.parameters)


@dataclass(frozen=True, eq=False)
class ToolContract:
    """What grammar and parser both read."""

    tools: tuple[Tool, ...]
    """All declared tools."""
    policy: ToolChoice
    dialect: Dialect
    body: OutputConstraint | None

    @classmethod
    def of(cls, constraint: ToolConstraint, dialect: Dialect) -> ToolContract:
        """The contract of a request; `dialect` is the model's own, unless the request states one.

        Errors: InvalidTools for a malformed list, a duplicate name, an unknown allowed name, or calls that are required
        of no tool; UnsupportedSchema for parameters that are no object; MalformedSchemaText; LimitExceeded.
        """
        try:
            declared = read_document(constraint.declarations)
        except MalformedSchemaText as error:
            raise InvalidTools("", f"line {error.line}, column {error.column}: {error.reason}") from None
        if not isinstance(declared, list):
            raise InvalidTools("", "the tools must be a list")
        options = JsonOptions(unknown_keywords=constraint.unknown_keywords)
        tools = tuple(_tool(value, child("", at), options) for at, value in enumerate(declared))
        _check_names(tools)
        contract = cls(tools, constraint.policy, constraint.dialect or dialect, constraint.body)
        contract._check_policy()
        return contract

    @cached_property
    def callable(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        if self.policy.mode == "none":
            return ()
        allowed = self.policy.allowed_names
        return tuple(tool for tool in self.tools if allowed is None or tool.name in allowed)

    @property
    def is_enforced(self) -> bool:
        """Whether the output is constrained at all (TOOL-2)."""
        policy = self.policy
        asked = policy.mode != "auto" or policy.allowed_names is not None or not policy.parallel
        asked = asked or self.body is not None or any(tool.is_strict for tool in self.callable)
        return bool(self.tools) and (policy.enforcement == "basic" or asked)

    def tool(self, name: str) -> Tool | None:
        """The declared tool of a name."""
        return self._by_name.get(name)

    def identity(self) -> Iterator[str]:
        """What decides the language, body aside: dialect, policy, callable names, schemas of strict tools."""
        yield from ("tools", self.dialect, self.policy.mode, str(self.policy.parallel))
        for tool in sorted(self.callable, key=lambda tool: tool.name):
            yield tool.name
            yield repr((tool.parameters, tool.options)) if tool.is_strict else ""

    @cached_property
    def _by_name(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self.tools}

    def _check_policy(self) -> None:
        for name in self.policy.allowed_names or ():
            if self.tool(name) is None:
                raise InvalidTools("", f"the tool choice names {name!r}, which is not declared")
        if self.policy.mode == "required" and not self.callable:
            raise InvalidTools("", "a call is required, but no tool may be called")


def placed(error: ConstraintError, pointer: str) -> ConstraintError:
    """The same error with its place below `pointer`, where it has a place in a document."""
    facts: Any = error
    return replace(facts, pointer=pointer + (facts.pointer or "")) if hasattr(error, "pointer") else error


@lru_cache(maxsize=CACHED_CONTRACTS)
def contract_of(constraint: ToolConstraint, dialect: Dialect) -> ToolContract:
    """`ToolContract.of`, remembered: grammar and parser of a request read one object."""
    return ToolContract.of(constraint, dialect)


class _Document:
    """A schema document as a key of a cache: equal where type and order of everything are."""

    def __init__(self, value: Json) -> None:
        self.value = value
        self._text = repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Document) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


@lru_cache(maxsize=CACHED_OBJECTS)
def _closed_object(document: _Document, options: JsonOptions) -> ClosedObject:
    return ClosedObject.of(document.value, options)


def _tool(value: Json, pointer: str, options: JsonOptions) -> Tool:
    if not isinstance(value, dict):
        raise InvalidTools(pointer, "a tool must be an object")
    if value.get("type", "function") != "function":
        raise InvalidTools(child(pointer, "type"), "only tools of type function are supported")
    function = value.get("function", value)
    if function is not value:
        pointer = child(pointer, "function")
    if not isinstance(function, dict):
        raise InvalidTools(pointer, "function must be an object")
    name = function.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidTools(child(pointer, "name"), "a tool's name holds letters, digits and _ - . / : and is not empty")
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise InvalidTools(child(pointer, "strict"), "strict must be a boolean")
    tool = Tool(name, pointer, bool(strict), function.get("parameters"), options)
    _check_root(tool)
    return tool


def _check_root(tool: Tool) -> None:
    """That the parameters are a schema which does not plainly describe something else than an object."""
    document = tool.parameters
    if document is None or document is True:
        return
    if not isinstance(document, dict):
        raise UnsupportedSchema(tool.schema_pointer, "type", "the parameters must be a schema of type object")
    stated = document.get("type")
    names = stated if isinstance(stated, list) else [stated]
    if stated is not None and "object" not in names:
        pointer = child(tool.schema_pointer, "type")
        raise UnsupportedSchema(pointer, "type", "the parameters of a tool must be of type object")


def _check_names(tools: tuple[Tool, ...]) -> None:
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise InvalidTools(child(tool.pointer, "name"), f"the tool name {tool.name!r} is declared twice")
        seen.add(tool.name)
