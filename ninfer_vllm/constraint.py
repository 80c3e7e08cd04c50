"""What a request asks for: `OutputConstraint` and `ToolConstraint`, frozen values that own their source texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ninfer_vllm.errors import (
    ConflictingConstraint,
    ConstraintError,
    InvalidChoice,
    InvalidGrammar,
    InvalidRegex,
    InvalidSchema,
    MalformedSchemaText,
)
from ninfer_vllm.spelling import line_and_column, schema_text, unpaired

Kind = Literal["grammar", "json_object", "json_schema", "choice", "regex"]
UnknownKeywords = Literal["refuse", "annotation"]
Whitespace = Literal["compact", "flexible"]
PropertyOrder = Literal["declared", "any"]
Frame = Literal["content", "thinking", "opening"]
"""Where generated text starts (THK-2): in the content, inside an open thinking block, or just before one."""
Dialect = Literal["xml", "hermes"]
"""How a model writes tool calls (contract TOOL)."""
ToolMode = Literal["auto", "required", "none"]
Enforcement = Literal["basic", "automatic"]


def _require_member(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConflictingConstraint(name, f"{value!r} is not one of {', '.join(allowed)}")


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """How JSON is read and written; part of the compiled identity (CMP-2)."""

    unknown_keywords: UnknownKeywords = "refuse"
    whitespace: Whitespace = "compact"
    property_order: PropertyOrder = "declared"

    def __post_init__(self) -> None:
        _require_member("unknown_keywords", self.unknown_keywords, get_args(UnknownKeywords))
        _require_member("whitespace", self.whitespace, get_args(Whitespace))
        _require_member("property_order", self.property_order, get_args(PropertyOrder))


DEFAULT_OPTIONS = JsonOptions()


@dataclass(frozen=True, slots=True)
class OutputConstraint:
    """The language of a request's output (REQ-1).

    Build one with a constructor: `grammar`, `json_object`, `json_schema`, `choice`, `regex`. Give it to vLLM as
    `SamplingParams(structured_outputs=constraint)`.
    """

    kind: Kind
    source: str
    """Grammar text, regular expression or JSON text; empty for `json_object` and `choice`."""
    literals: tuple[str, ...] = ()
    options: JsonOptions = DEFAULT_OPTIONS
    model: Any = field(default=None, compare=False, repr=False)
    """The pydantic model or TypeAdapter that `parse` returns instances of; no part of the identity."""

    def __post_init__(self) -> None:
        _require_member("kind", self.kind, get_args(Kind))
        _require_unicode(self.kind, _require_str("source", self.source))
        if not isinstance(self.literals, tuple):
            raise InvalidChoice("a choice is a tuple of strings")
        kept = dict.fromkeys(_literal(index, literal) for index, literal in enumerate(self.literals))
        object.__setattr__(self, "literals", tuple(kept))
        if not isinstance(self.options, JsonOptions):
            raise ConflictingConstraint("options", f"expected JsonOptions, got {type(self.options).__name__}")

    @classmethod
    def grammar(cls, text: str) -> OutputConstraint:
        """The language of a GBNF text with start rule `root` (contract GBNF)."""
        return cls("grammar", _require_str("grammar", text))

    @classmethod
    def regex(cls, text: str) -> OutputConstraint:
        """The texts that the whole of an ECMAScript-style expression matches (contract RGX)."""
        return cls("regex", _require_str("regex", text))

    @classmethod
    def choice(cls, literals: Iterable[str]) -> OutputConstraint:
        """Exactly one of the given texts (contract CHO); duplicates are dropped, order carries no weight.

        Errors: InvalidChoice if the list is empty or holds something that is not Unicode text.
        """
        if isinstance(literals, str) or not isinstance(literals, Iterable):
            raise InvalidChoice("a choice is a list of strings")
        given = tuple(literals)
        if not given:
            raise InvalidChoice("the list is empty")
        return cls("choice", "", given)

    @classmethod
    def json_object(cls, *, whitespace: Whitespace = "compact") -> OutputConstraint:
        """Any JSON text whose root is an object (JSO-1)."""
        return cls("json_object", "", options=JsonOptions(whitespace=whitespace))

    @classmethod
    def json_schema(
        cls,
        schema: Any,
        *,
        unknown_keywords: UnknownKeywords = "refuse",
        whitespace: Whitespace = "compact",
        property_order: PropertyOrder = "declared",
    ) -> OutputConstraint:
        """The JSON values a schema admits, in this product's canonical spelling (contract JSO to JSX).

        `schema` is a dict or bool, JSON text, a pydantic model class or a pydantic TypeAdapter. The key order of
        the document is kept: declared property order is part of the language.

        Errors: InvalidSchema if `schema` is none of these or has no JSON spelling; LimitExceeded where it is nested so
        deep that it cannot be spelled.
        """
        options = JsonOptions(unknown_keywords, whitespace, property_order)
        if isinstance(schema, str):
            return cls("json_schema", schema, options=options)
        if isinstance(schema, Mapping | bool):
            plain = schema if isinstance(schema, bool) else dict(schema)
            return cls("json_schema", schema_text(plain), options=options)
        return cls("json_schema", schema_text(_pydantic_schema(schema)), options=options, model=schema)

    def __deepcopy__(self, memo: dict[int, object]) -> OutputConstraint:
        return self

    def parse(self, text: str) -> Any:
        """The value of a finished output: a pydantic instance where a model was given, else JSON, else the text.

        Errors: pydantic.ValidationError or json.JSONDecodeError if `text` is not a complete output.
        """
        if self.model is not None:
            validate = getattr(self.model, "model_validate_json", None) or self.model.validate_json
            return validate(text)
        return json.loads(text) if self.kind in ("json_object", "json_schema") else text


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The calling policy of a request (REQ-4, TOOL-5)."""

    mode: ToolMode = "auto"
    allowed_names: tuple[str, ...] | None = None
    """The tools that may be called; None is all of them."""
    parallel: bool = True
    """Whether one turn may hold several calls."""
    enforcement: Enforcement = "basic"

    def __post_init__(self) -> None:
        _require_member("tool_choice", self.mode, get_args(ToolMode))
        _require_member("enforcement", self.enforcement, get_args(Enforcement))
        given: Any = self.allowed_names
        if given is not None:
            names = dict.fromkeys(_text("tool_choice", name) for name in ([given] if isinstance(given, str) else given))
            object.__setattr__(self, "allowed_names", tuple(names))
        if not isinstance(self.parallel, bool):
            raise ConflictingConstraint("parallel_tool_calls", f"{self.parallel!r} is not a boolean")

    @classmethod
    def named(cls, name: str, *, enforcement: Enforcement = "basic") -> ToolChoice:
        """Exactly one call of one tool."""
        return cls("required", (name,), False, enforcement)

    @classmethod
    def of(cls, value: ToolChoice | str | Mapping[str, Any]) -> ToolChoice:
        """A choice as it is, or an OpenAI `tool_choice` value (TOOL-14).

        That is `auto`, `required`, `none`, a named function, or `allowed_tools`, in the spelling of Chat or Responses.

        Errors: ConflictingConstraint for anything else.
        """
        if isinstance(value, ToolChoice):
            return value
        if isinstance(value, str):
            return cls(value)  # type: ignore[arg-type]
        given: Any = value
        kind = given.get("type") if isinstance(given, Mapping) else None
        if kind == "function":
            return cls.named(_function_name(given))
        if kind == "allowed_tools":
            allowed = given.get("allowed_tools", given)
            tools = allowed.get("tools") if isinstance(allowed, Mapping) else None
            if isinstance(tools, list) and all(isinstance(tool, Mapping) for tool in tools):
                return cls(allowed.get("mode", "auto"), tuple(map(_function_name, tools)))
        raise ConflictingConstraint("tool_choice", f"{value!r} is no tool choice")


@dataclass(frozen=True, slots=True)
class ToolConstraint:
    """The tools of a request, their calling policy, and what else the output may be (REQ-4, TOOL-12).

    `tools` is the list of OpenAI function declarations, or its JSON text; the text is what is kept. `choice` is a
    `ToolChoice` or an OpenAI `tool_choice` value. Without `dialect` it is the model's own.

    Errors: ConflictingConstraint; the declarations themselves are read where the request is prepared.
    """

    tools: str | Sequence[Any]
    choice: ToolChoice | str | Mapping[str, Any] = ToolChoice()
    body: OutputConstraint | None = None
    """What the content must be where no tool is called: JSON object or JSON Schema (REQ-5)."""
    dialect: Dialect | None = None
    unknown_keywords: UnknownKeywords = "refuse"
    """What is done about unknown keywords in the schemas of strict tools."""

    def __post_init__(self) -> None:
        _require_member("unknown_keywords", self.unknown_keywords, get_args(UnknownKeywords))
        object.__setattr__(self, "tools", _declarations(self.tools))
        object.__setattr__(self, "choice", ToolChoice.of(self.choice))
        if self.dialect is not None:
            _require_member("dialect", self.dialect, get_args(Dialect))
        if self.body is not None and not isinstance(self.body, OutputConstraint):
            raise ConflictingConstraint("body", f"expected an OutputConstraint, got {type(self.body).__name__}")
        if (
            self.body is not None
            and self.policy.mode != "none"
            and self.body.kind not in ("json_object", "json_schema")
        ):
            raise ConflictingConstraint("tools", f"a {self.body.kind} constraint cannot be combined with active tools")

    @property
    def kind(self) -> Literal["tools"]:
        """The kind of the constraint in records."""
        return "tools"

    @property
    def declarations(self) -> str:
        """The JSON text of the declarations."""
        assert isinstance(self.tools, str)
        return self.tools

    @property
    def policy(self) -> ToolChoice:
        """The calling policy."""
        assert isinstance(self.choice, ToolChoice)
        return self.choice

    def __deepcopy__(self, memo: dict[int, object]) -> ToolConstraint:
        return self


Constraint = OutputConstraint | ToolConstraint


def _function_name(value: Mapping[str, Any]) -> str:
    function = value.get("function", value)
    name = function.get("name") if isinstance(function, Mapping) else None
    return _text("tool_choice", name)


def _text(field_name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConflictingConstraint(field_name, f"a tool's name is text, not {value!r}")
    return _require_text(field_name, value)


def _declarations(tools: object) -> str:
    if isinstance(tools, str):
        return _require_text("tools", tools)
    if not isinstance(tools, Sequence):
        raise ConflictingConstraint("tools", f"expected a list of declarations, got {type(tools).__name__}")
    try:
        text = json.dumps(list(tools), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConflictingConstraint("tools", f"the declarations have no JSON spelling: {error}") from None
    return _require_text("tools", text)


def _require_str(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise ConflictingConstraint(name, f"expected text, got {type(text).__name__}")
    return text


def _require_unicode(kind: Kind, source: str) -> None:
    """Refuse an unpaired surrogate at its place, as the language of the kind counts places."""
    offset = unpaired(source)
    if offset is None:
        return
    reason = "an unpaired surrogate is no character"
    if kind == "regex":
        raise InvalidRegex(reason, offset)
    line, column = line_and_column(source, offset)
    error: ConstraintError = InvalidGrammar(reason, line, column)
    raise error if kind == "grammar" else MalformedSchemaText(reason, line, column)


def _require_text(name: str, given: object) -> str:
    text = _require_str(name, given)
    if unpaired(text) is not None:
        raise ConflictingConstraint(name, "the text holds an unpaired surrogate")
    return text


def _literal(index: int, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidChoice(f"expected a string, got {type(value).__name__}", index)
    if unpaired(value) is not None:
        raise InvalidChoice("the string holds an unpaired surrogate", index)
    return value


def _pydantic_schema(source: Any) -> object:
    build = getattr(source, "model_json_schema", None) or getattr(source, "json_schema", None)
    if build is None:
        raise InvalidSchema(
            "", f"expected a dict, JSON text, a pydantic model or a TypeAdapter, got {type(source).__name__}"
        )
    # Not at the top: the command line's help needs no pydantic.
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError

    try:
        return build()
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise InvalidSchema("", f"pydantic makes no JSON Schema of {source!r}: {error}") from None
