"""Compiled grammars under a byte budget, least recently used first out (CMP-6)."""

from __future__ import annotations

from collections import OrderedDict

from ninfer_vllm.engines.protocol import CompiledGrammar


class CompiledCache:
    """Key -> compiled grammar. Not thread-safe: the compiler holds its lock around every call.

    Objects in use survive eviction, because sessions hold them; the budget counts what the cache itself keeps.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._entries: OrderedDict[str, CompiledGrammar] = OrderedDict()
        self.nbytes = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> CompiledGrammar | None:
        """The compiled grammar, now the most recently used; None where it is absent."""
        compiled = self._entries.get(key)
        if compiled is not None:
            self._entries.move_to_end(key)
        return compiled

    def put(self, key: str, compiled: CompiledGrammar) -> None:
        """Keep a compiled grammar if it fits the budget at all, evicting older ones for it."""
        if compiled.nbytes > self._budget:
            return
        self._entries[key] = compiled
        self.nbytes += compiled.nbytes
        while self.nbytes > self._budget:
            _, oldest = self._entries.popitem(last=False)
            self.nbytes -= oldest.nbytes
            self.evictions += 1

    def clear(self) -> None:
        """Let go of everything."""
        self._entries.clear()
        self.nbytes = 0
