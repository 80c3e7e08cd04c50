"""The closed set of typed errors: stable code, message for people, place, HTTP status."""

from __future__ import annotations

from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Any, ClassVar

Place = dict[str, str | int]


class NInferError(Exception):
    """Base of every error of this product; equality, hash and pickling go by fields."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR

    @property
    def facts(self) -> tuple[Any, ...]:
        """The fields' values, in order."""
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.facts == other.facts

    def __hash__(self) -> int:
        return hash((type(self).__name__, str(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.facts

    @property
    def place(self) -> Place:
        """Where the fault lies, in the caller's own text: line/column, offset, JSON Pointer, field or limit."""
        names = ("line", "column", "offset", "pointer", "index", "field", "limit")
        found = ((name, getattr(self, name, None)) for name in names)
        return {name: value for name, value in found if value is not None}

    def to_wire(self) -> tuple[str, list[Any]]:
        """Class name and facts, for `rebuilt` on the other side of a process boundary."""
        return type(self).__name__, list(self.facts)

    def to_json(self) -> dict[str, Any]:
        """The one serialised form: code, message and place."""
        return {"code": self.code, "message": str(self), "place": self.place}


class ConstraintError(NInferError, ValueError):
    """The request's fault, known before the request is queued: HTTP 400."""

    code: ClassVar[str] = "invalid_constraint"
    status: ClassVar[HTTPStatus] = HTTPStatus.BAD_REQUEST


@dataclass(eq=False)
class InvalidGrammar(ConstraintError):
    """A GBNF text that does not parse or does not define a language; line and column are 1-based."""

    code: ClassVar[str] = "invalid_grammar"
    reason: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"grammar line {self.line}, column {self.column}: {self.reason}"


@dataclass(eq=False)
class InvalidSchema(ConstraintError):
    """A JSON Schema document that is malformed at a JSON Pointer."""

    code: ClassVar[str] = "invalid_schema"
    pointer: str
    reason: str

    def __str__(self) -> str:
        return f"schema {_shown(self.pointer)}: {self.reason}"


@dataclass(eq=False)
class MalformedSchemaText(ConstraintError):
    """Schema text that is not strict JSON; line and column are 1-based."""

    code: ClassVar[str] = "invalid_schema"
    reason: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"schema text line {self.line}, column {self.column}: {self.reason}"


@dataclass(eq=False)
class UnsupportedSchema(ConstraintError):
    """A keyword (or its value) that is not enforced exactly, so the whole schema is refused."""

    code: ClassVar[str] = "unsupported_schema"
    pointer: str
    keyword: str
    reason: str

    def __str__(self) -> str:
        return f"schema {_shown(self.pointer)}: {self.reason}"


@dataclass(eq=False)
class Unsatisfiable(ConstraintError):
    """A constraint that no text satisfies."""

    code: ClassVar[str] = "unsatisfiable"
    reason: str
    pointer: str | None = None

    def __str__(self) -> str:
        where = "" if self.pointer is None else f"schema {_shown(self.pointer)}: "
        return f"{where}{self.reason}"


@dataclass(eq=False)
class InvalidRegex(ConstraintError):
    """A regular expression that is malformed or uses a refused construct; offset counts characters from 0."""

    code: ClassVar[str] = "invalid_regex"
    reason: str
    offset: int
    pointer: str | None = None

    def __str__(self) -> str:
        where = "" if self.pointer is None else f"schema {_shown(self.pointer)}: "
        return f"{where}regex offset {self.offset}: {self.reason}"


@dataclass(eq=False)
class InvalidChoice(ConstraintError):
    """A choice list that is empty, holds a non-string, or breaks a limit."""

    code: ClassVar[str] = "invalid_choice"
    reason: str
    index: int | None = None

    def __str__(self) -> str:
        where = "choice" if self.index is None else f"choice {self.index}"
        return f"{where}: {self.reason}"


@dataclass(eq=False)
class ConflictingConstraint(ConstraintError):
    """A request whose field contradicts its constraint."""

    code: ClassVar[str] = "conflicting_constraint"
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


@dataclass(eq=False)
class InvalidContinuation(ConstraintError):
    """Existing content that is no prefix of the language; offset counts bytes from 0."""

    code: ClassVar[str] = "invalid_continuation"
    reason: str
    offset: int

    def __str__(self) -> str:
        return f"existing content, byte {self.offset}: {self.reason}"


@dataclass(eq=False)
class InvalidTools(ConstraintError):
    """A tool list that is malformed at a JSON Pointer, or a tool choice that no declared tool answers."""

    code: ClassVar[str] = "invalid_tools"
    pointer: str
    reason: str

    def __str__(self) -> str:
        return f"tools {_shown(self.pointer)}: {self.reason}"


@dataclass(eq=False)
class UnrepresentableToolValue(ConstraintError):
    """A tool parameter value that the tool dialect cannot carry."""

    code: ClassVar[str] = "unrepresentable_tool_value"
    pointer: str
    reason: str

    def __str__(self) -> str:
        return f"tool {_shown(self.pointer)}: {self.reason}"


@dataclass(eq=False)
class LimitExceeded(ConstraintError):
    """A size or time limit of `limits.py` that the request would exceed, with the place that met it where one did."""

    code: ClassVar[str] = "limit_exceeded"
    limit: str
    allowed: int | float
    given: int | float | None = None
    pointer: str | None = None
    offset: int | None = None
    """Of a regular expression, in characters from 0."""
    line: int | None = None
    """Of a grammar, from 1, with its column."""
    column: int | None = None

    def __str__(self) -> str:
        where = "" if self.pointer is None else f"schema {_shown(self.pointer)}: "
        where += "" if self.offset is None else f"regex offset {self.offset}: "
        where += "" if self.line is None else f"grammar line {self.line}, column {self.column}: "
        given = "" if self.given is None else f", given {self.given}"
        return f"{where}limit {self.limit} exceeded: allowed {self.allowed}{given}"


@dataclass(eq=False)
class UnsupportedTemplate(ConstraintError):
    """A chat template that frames thinking or calls in a way no frontend knows."""

    code: ClassVar[str] = "unsupported_template"
    part: str
    found: str

    def __str__(self) -> str:
        return f"the chat template's way of writing {self.part} is not understood: found {self.found}"


@dataclass(eq=False)
class UnsupportedByEngine(ConstraintError):
    """A construct that the chosen engine does not run; another engine may."""

    engine: str
    reason: str

    def __str__(self) -> str:
        return f"the {self.engine} engine does not run {self.reason}"


class RowFailure(NInferError):
    """One running request cannot go on; every other request does: HTTP 422."""

    status: ClassVar[HTTPStatus] = HTTPStatus.UNPROCESSABLE_ENTITY


@dataclass(eq=False)
class ConstraintDeadEnd(RowFailure):
    """No token is legal and the content is not complete."""

    code: ClassVar[str] = "constraint_dead_end"
    output_tokens: int

    def __str__(self) -> str:
        return (
            f"no legal token after {self.output_tokens} output tokens: the constraint, together with the request's "
            "other token restrictions, leaves nothing to generate"
        )


@dataclass(eq=False)
class NonFiniteLogits(RowFailure):
    """The model produced NaN or infinite logits for this row."""

    code: ClassVar[str] = "non_finite_logits"
    output_tokens: int

    def __str__(self) -> str:
        return f"the model's logits were not finite after {self.output_tokens} output tokens"


class SessionError(NInferError):
    """An inconsistency of ours, never the request's fault: HTTP 500."""


@dataclass(eq=False)
class IllegalTransition(SessionError):
    """An event that the session's state table does not allow."""

    code: ClassVar[str] = "illegal_transition"
    state: str
    event: str

    def __str__(self) -> str:
        return f"session in state {self.state} received {self.event}"


@dataclass(eq=False)
class MatcherInconsistency(SessionError):
    """A matcher that contradicts its own mask or cannot roll back."""

    code: ClassVar[str] = "matcher_inconsistency"
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class UnreadableToolCall(SessionError):
    """A complete tool call of a constrained output that its own parser cannot read."""

    code: ClassVar[str] = "unreadable_tool_call"
    reason: str

    def __str__(self) -> str:
        return f"a constrained tool call cannot be read: {self.reason}"


@dataclass(eq=False)
class CompileFailed(SessionError):
    """The engine failed on a grammar that our checks had accepted."""

    code: ClassVar[str] = "compile_failed"
    reason: str

    def __str__(self) -> str:
        return f"the grammar engine failed: {self.reason}"


class HostError(NInferError):
    """Start-up stops: the host, its version or the model's tokenizer is not one we know."""


@dataclass(eq=False)
class UnsupportedHost(HostError):
    """A vLLM version outside the supported set."""

    code: ClassVar[str] = "unsupported_host"
    version: str
    supported: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(self.supported)
        return f"vLLM {self.version} is not supported by ninfer-vllm; supported versions: {known}"


@dataclass(eq=False)
class PatchDrift(HostError):
    """A seam of the host whose source is not the recorded one."""

    code: ClassVar[str] = "patch_drift"
    target: str
    want: str
    have: str
    supported: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(self.supported)
        return (
            f"seam {self.target} of this vLLM is not the recorded one (recorded {self.want}, found {self.have}); "
            f"nothing was patched; supported versions: {known}"
        )


@dataclass(eq=False)
class UnsupportedTokenizer(HostError):
    """A tokenizer whose tokens have no known byte spelling."""

    code: ClassVar[str] = "unsupported_tokenizer"
    name: str
    reason: str

    def __str__(self) -> str:
        return f"tokenizer {self.name} is not supported: {self.reason}"


@dataclass(eq=False)
class InvalidOption(HostError):
    """A start option that does not exist or has no such value."""

    code: ClassVar[str] = "invalid_option"
    option: str
    value: str

    def __str__(self) -> str:
        return f"ninfer option {self.option}: {self.value} is not accepted"


def rebuilt(name: str, facts: list[Any]) -> NInferError:
    """The error of a class name and its facts, as they cross a process boundary."""
    classes = {known.__name__: known for known in _concrete(NInferError)}
    return classes[name](*facts)


def status_of(code: str) -> HTTPStatus:
    """The HTTP status of a stable code."""
    return next((known.status for known in _concrete(NInferError) if known.code == code), NInferError.status)


def _concrete(base: type[NInferError]) -> list[type[NInferError]]:
    found = [base] if base.__module__ == __name__ else []
    return found + [known for child in base.__subclasses__() for known in _concrete(child)]


def _shown(pointer: str) -> str:
    return pointer or "(root)"
