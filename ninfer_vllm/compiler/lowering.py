"""From a constraint to the lowered grammar that travels with a request; lowered once and remembered.

Runs where requests are validated, before they are queued. A refusal is a result: it is remembered as well.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.grammar.checks import prune
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
    seconds: float
    """CPU seconds that lowering took in the thread that did it."""


def key_of(constraint: OutputConstraint) -> str:
    """The identity of a lowered grammar: kind, source in its own order, options.

    A choice is keyed by its literal set, so its order does not matter.
    """
    digest = hashlib.sha256()
    options = constraint.options
    facts = (constraint.kind, options.unknown_keywords, options.whitespace, options.property_order)
    for part in (*facts, constraint.source, *sorted(constraint.literals)):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class LoweringCache:
    """Lowers constraints with single flight a key and a byte budget; thread-safe."""

    def __init__(self, vocabulary: Callable[[], Vocabulary], *, budget: int = LOWERED_BYTES) -> None:
        self._vocabulary = vocabulary
        self._budget = budget
        self._lock = threading.Lock()
        self._results: OrderedDict[str, Future[Lowered]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._used = 0

    def lower(self, constraint: OutputConstraint) -> Lowered:
        """The lowered grammar of a constraint; waits for a lowering of the same key.

        Errors: ConstraintError where the constraint is refused.
        """
        key = key_of(constraint)
        with self._lock:
            result = self._results.get(key)
            mine = result is None
            if result is None:
                result = self._results[key] = Future()
            else:
                self._results.move_to_end(key)
        if mine:
            self._fulfil(result, key, constraint)
        return result.result()

    def _fulfil(self, result: Future[Lowered], key: str, constraint: OutputConstraint) -> None:
        try:
            lowered = self._lower(key, constraint)
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
        started = time.thread_time()
        vocabulary = self._vocabulary() if constraint.kind == "grammar" else None
        data = encode(prune(lower(constraint, vocabulary)))
        return Lowered(key, constraint.kind, data, time.thread_time() - started)

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
