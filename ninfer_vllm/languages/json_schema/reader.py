"""One subschema object read keyword by keyword into a node, every fault collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ninfer_vllm.errors import ConstraintError, UnsupportedSchema
from ninfer_vllm.languages.json_schema.dialects import Dialect
from ninfer_vllm.languages.json_schema.document import Json
from ninfer_vllm.languages.json_schema.keywords import find, unknown_reason
from ninfer_vllm.languages.json_schema.refusals import MAX_PROBLEMS
from ninfer_vllm.languages.json_schema.schema import Applicator, Node
from ninfer_vllm.spelling import child


class NodeReader:
    """What is known of one subschema while its keywords are read; a keyword's function changes `node`."""

    def __init__(self, pointer: str, value: dict[str, Json], dialect: Dialect, *, ignores_unknown: bool) -> None:
        self.pointer = pointer
        self.value = value
        self.dialect = dialect
        self.ignores_unknown = ignores_unknown
        self.node = Node(pointer)
        self.late: list[Applicator] = []
        """Applicators that say nothing about the order of members."""
        self.derived: list[Node] = []
        """Nodes that state what no written subschema states."""
        self.problems: list[ConstraintError] = []
        self.children: list[tuple[str, Json]] = []
        """Subschemas of this one, in reading order."""
        self.reference: tuple[str, str] | None = None
        """The `$ref` value and its pointer; the reader's caller resolves it."""

    def read(self, readers: Mapping[str, Reader]) -> None:
        """Read every keyword with its function; `problems` holds what was refused."""
        self._check_reference_siblings()
        for name, value in self.value.items():
            if len(self.problems) >= MAX_PROBLEMS:
                return
            try:
                self._keyword(name, value, child(self.pointer, name), readers)
            except ConstraintError as problem:
                self.problems.append(problem)

    def child(self, value: Json, pointer: str) -> str:
        """Registers a subschema and names it."""
        self.children.append((pointer, value))
        return pointer

    def add(self, node: Node) -> str:
        """Registers a derived node and names it."""
        self.derived.append(node)
        return node.pointer

    def _keyword(self, name: str, value: Json, pointer: str, readers: Mapping[str, Reader]) -> None:
        keyword = find(name, self.dialect)
        if keyword is None:
            if not self.ignores_unknown:
                raise UnsupportedSchema(pointer, name, unknown_reason(name, self.dialect))
        elif keyword.role == "refused":
            raise UnsupportedSchema(pointer, name, f"{name} is not enforced; {keyword.advice}")
        elif name in readers and keyword.role in ("assertion", "location"):
            readers[name](self, value, pointer)

    def _check_reference_siblings(self) -> None:
        """Older drafts ignore what stands beside `$ref`; asserting it or dropping it would both surprise."""
        if "$ref" not in self.value or self.dialect.applies_ref_siblings:
            return
        for name in self.value:
            keyword = find(name, self.dialect)
            counts = not self.ignores_unknown if keyword is None else keyword.role in ("assertion", "refused")
            if counts and name != "$ref":
                reason = f"{self.dialect.title} ignores {name} beside $ref: put both into allOf"
                self.problems.append(UnsupportedSchema(child(self.pointer, name), name, reason))


Reader = Callable[[NodeReader, Json, str], None]
"""Reads the value of one keyword at a pointer."""
