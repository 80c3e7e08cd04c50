"""From a constraint to the lowered grammar that travels with a request; lowered once and remembered.

Runs where requests are validated, before they are queued. A refusal is a result: it is remembered as well.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, overload

from ninfer_vllm.constraint import Constraint, OutputConstraint, ToolConstraint
from ninfer_vllm.errors import ConflictingConstraint, ConstraintError
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.grammar.wire import encode
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.vocabulary import Vocabulary

LOWERED_BYTES = 64 << 20
"""Bytes of lowered grammars kept for reuse: a few thousand everyday schemas."""

REFUSAL_BYTES = 1024
"""What a remembered refusal counts for."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A checked grammar in its wire form, with its identity (CMP-2)."""

    key: str
    kind: str
    grammar: bytes
    tool_id: int | None = None
    """The control token that begins a tool call, where the output may hold one."""


class ToolPlan(Protocol):
    """The tools of a request as a model family reads them; see `qwen_frontend.tools.plan`."""

    @property
    def body(self) -> OutputConstraint | None:
        """What the content must be."""

    @property
    def open_id(self) -> int:
        """The control token that begins a call."""

    @property
    def has_calls(self) -> bool:
        """Whether any tool may be called."""

    @property
    def is_enforced(self) -> bool:
        """Whether the output is constrained at all (TOOL-2)."""

    def identity(self) -> Iterable[str]:
        """What decides the language, body aside (TOOL-13)."""

    def lower(self, body: Grammar | None) -> Grammar:
        """The grammar of the output, given that of its body."""


ReadTools = Callable[[ToolConstraint], ToolPlan]
"""A model family's reading of tools; ConstraintError where they are refused."""


def no_tools(constraint: ToolConstraint) -> ToolPlan:
    """The reading of a model without a family that knows tools: refused."""
    raise ConflictingConstraint("tools", "this model has no frontend that knows how it writes tool calls")


def key_of(constraint: OutputConstraint) -> str:
    """The identity of a lowered grammar: kind, source in its own order, options.

    A choice is keyed by its literal set, so its order does not matter.
    """
    options = constraint.options
    facts = (constraint.kind, options.unknown_keywords, options.whitespace, options.property_order)
    return _digest((*facts, constraint.source, *sorted(constraint.literals)))


def key_of_tools(plan: ToolPlan) -> str:
    """The identity of the grammar of a plan (TOOL-13)."""
    return _digest(("" if plan.body is None else key_of(plan.body), *plan.identity()))


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class LoweringCache:
    """Lowers constraints with single flight a key and a byte budget; thread-safe."""

    def __init__(
        self, vocabulary: Callable[[], Vocabulary], read_tools: ReadTools = no_tools, *, budget: int = LOWERED_BYTES
    ) -> None:
        self._vocabulary = vocabulary
        self._read_tools = read_tools
        self._budget = budget
        self._lock = threading.Lock()
        self._results: OrderedDict[str, Future[Lowered]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._used = 0

    @overload
    def lower(self, constraint: OutputConstraint) -> Lowered: ...

    @overload
    def lower(self, constraint: Constraint) -> Lowered | None: ...

    def lower(self, constraint: Constraint) -> Lowered | None:
        """The lowered grammar of a constraint; waits for a lowering of the same key.

        None is for tools of which nothing is to be enforced. Where no tool may be called, the body is all there is.

        Errors: ConstraintError where the constraint is refused.
        """
        if isinstance(constraint, OutputConstraint):
            return self._shared(key_of(constraint), lambda key: self._lower(key, constraint))
        plan = self._read_tools(constraint)
        if plan.body is not None and not plan.has_calls:
            return self.lower(plan.body)
        return self._shared(key_of_tools(plan), lambda key: self._lower_tools(key, plan)) if plan.is_enforced else None

    def _shared(self, key: str, work: Callable[[str], Lowered]) -> Lowered:
        with self._lock:
            result = self._results.get(key)
            mine = result is None
            if result is None:
                result = self._results[key] = Future()
            else:
                self._results.move_to_end(key)
        if mine:
            self._fulfil(result, key, work)
        return result.result()

    def _fulfil(self, result: Future[Lowered], key: str, work: Callable[[str], Lowered]) -> None:
        try:
            lowered = work(key)
        except ConstraintError as refusal:
            self._charge(key, REFUSAL_BYTES)
            result.set_exception(refusal)
        except BaseException as fault:  # noqa: BLE001 - whoever waits for this key must hear of it
            with self._lock:
                self._results.pop(key, None)
            result.set_exception(fault)
        else:
            self._charge(key, len(lowered.grammar))
            result.set_result(lowered)

    def _lower(self, key: str, constraint: OutputConstraint) -> Lowered:
        vocabulary = self._vocabulary() if constraint.kind == "grammar" else None
        return Lowered(key, constraint.kind, encode(prune(lower(constraint, vocabulary))))

    def _lower_tools(self, key: str, plan: ToolPlan) -> Lowered:
        body = None if plan.body is None else lower(plan.body)
        data = encode(prune(plan.lower(body)))
        return Lowered(key, "tools", data, plan.open_id if plan.has_calls else None)

    def _charge(self, key: str, size: int) -> None:
        with self._lock:
            self._sizes[key] = size
            self._used += size
            while self._used > self._budget and len(self._sizes) > 1:
                oldest = next(known for known in self._results if known in self._sizes)
                if oldest == key:
                    break
                del self._results[oldest]
                self._used -= self._sizes.pop(oldest)
