"""The engine of a start option, and the one behind it: what the native engine does not run, xgrammar does."""

from __future__ import annotations

from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.engines.protocol import CompiledGrammar, Engine, EngineName
from ninfer_vllm.engines.xgrammar import XgrammarEngine
from ninfer_vllm.errors import UnsupportedByEngine
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.limits import COMPILE_TIMEOUT_S
from ninfer_vllm.vocabulary import Vocabulary


class SelectingEngine:
    """Runs a grammar on the first engine, or on the second where the first does not run it. Thread-safe."""

    def __init__(self, first: Engine, second: Engine) -> None:
        self._first = first
        self._second = second

    @property
    def name(self) -> str:
        """The name of the first engine; a compiled grammar knows which one it was."""
        return self._first.name

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Bind a checked grammar to the vocabulary.

        Errors: those of the first engine, or those of the second for what the first does not run.
        """
        try:
            return self._first.compile(grammar)
        except UnsupportedByEngine:
            return self._second.compile(grammar)

    def close(self) -> None:
        """End what the engines keep running."""
        self._first.close()
        self._second.close()


def engine_for(name: EngineName, vocabulary: Vocabulary, *, timeout_s: float = COMPILE_TIMEOUT_S) -> Engine:
    """The engine of a start option; with `native`, left-recursive grammars run on xgrammar."""
    # It starts no process before the first grammar it compiles.
    xgrammar = XgrammarEngine(vocabulary, timeout_s=timeout_s)
    return xgrammar if name == "xgrammar" else SelectingEngine(NativeEngine(vocabulary), xgrammar)
