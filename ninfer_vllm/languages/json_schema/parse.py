"""From schema text to the nodes that the root reaches, with every refusal on the way."""

from __future__ import annotations

from dataclasses import replace

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError, InvalidSchema
from ninfer_vllm.languages.json_schema.assertions import read_node
from ninfer_vllm.languages.json_schema.dialects import Dialect, dialect_of
from ninfer_vllm.languages.json_schema.document import Json, read_document
from ninfer_vllm.languages.json_schema.references import resolve
from ninfer_vllm.languages.json_schema.refusals import MAX_PROBLEMS
from ninfer_vllm.languages.json_schema.schema import Node, Schema

ROOT = ""
"""The JSON Pointer of the whole document."""


def parse_schema(text: str, options: JsonOptions) -> tuple[Schema, list[ConstraintError]]:
    """The schema of a text, and every problem found in what the root reaches, in reading order.

    Definitions that nothing refers to carry no assertion and are not read. What is refused
    is read as if it said nothing; beyond `MAX_PROBLEMS` problems, nothing more is read.

    Errors: MalformedSchemaText, LimitExceeded, and UnsupportedSchema for an unknown `$schema`.
    """
    return parse_document(read_document(text), options)


def parse_document(document: Json, options: JsonOptions) -> tuple[Schema, list[ConstraintError]]:
    """Like `parse_schema`, of a document that has been read."""
    return _Parser(document, dialect_of(document), options).parse()


class _Parser:
    """Reads subschemas until no new one is met; depth is no danger, since nothing recurs."""

    def __init__(self, document: Json, dialect: Dialect, options: JsonOptions) -> None:
        self._document = document
        self._dialect = dialect
        self._ignores_unknown = options.unknown_keywords == "annotation"
        base = document.get(dialect.id_keyword) if isinstance(document, dict) else None
        self._base = base if isinstance(base, str) else ""
        self._nodes: dict[str, Node] = {}
        self._problems: list[ConstraintError] = []
        self._todo: list[tuple[str, Json]] = []

    def parse(self) -> tuple[Schema, list[ConstraintError]]:
        self._todo.append((ROOT, self._document))
        while self._todo and len(self._problems) < MAX_PROBLEMS:
            pointer, value = self._todo.pop()
            if pointer in self._nodes:
                continue
            try:
                self._nodes[pointer] = self._node(pointer, value)
            except ConstraintError as problem:
                self._nodes[pointer] = Node(pointer)
                self._problems.append(problem)
        return Schema(self._nodes), self._problems

    def _node(self, pointer: str, value: Json) -> Node:
        if isinstance(value, bool) and (self._dialect > Dialect.DRAFT_04 or _may_be_boolean(pointer)):
            return Node(pointer) if value else Node(pointer, types=frozenset())
        if not isinstance(value, dict):
            raise InvalidSchema(pointer, f"a schema must be an object{_or_boolean(self._dialect)}")
        reader = read_node(pointer, value, self._dialect, ignores_unknown=self._ignores_unknown)
        node = reader.node
        self._problems.extend(reader.problems)
        self._todo.extend(reversed(reader.children))
        self._nodes.update((derived.pointer, derived) for derived in reader.derived)
        return node if reader.reference is None else self._referring(node, *reader.reference)

    def _referring(self, node: Node, reference: str, pointer: str) -> Node:
        """The node with the place of its `$ref` replaced by the place that the reference names."""
        target, value = resolve(self._document, reference, self._base, pointer)
        self._todo.append((target, value))
        applicators = tuple(
            replace(applicator, members=(target,)) if applicator.pointer == pointer else applicator
            for applicator in node.applicators
        )
        return replace(node, applicators=applicators)


def _may_be_boolean(pointer: str) -> bool:
    return pointer.endswith(("/additionalProperties", "/additionalItems"))


def _or_boolean(dialect: Dialect) -> str:
    return "" if dialect is Dialect.DRAFT_04 else " or a boolean"
