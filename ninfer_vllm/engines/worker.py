"""The compile process: tries the xgrammar core on grammars of users, where it may hang, exhaust memory or crash.

`isolation` starts it and speaks `frames` over its standard input and output: the vocabulary, then one grammar after
another. It ends when its input does, even in the middle of a build, so it never outlives the engine.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import queue
import resource
import signal
import sys
import threading
import time
import types
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ninfer_vllm.engines import frames
from ninfer_vllm.engines.tokens import core_spellings, end_ids, sampled_spellings
from ninfer_vllm.engines.trial import glance, study
from ninfer_vllm.errors import CompileFailed, LimitExceeded, NInferError
from ninfer_vllm.grammar.checks import count_nodes, prune
from ninfer_vllm.grammar.counts import merge_counts
from ninfer_vllm.grammar.ebnf import ROOT, to_ebnf
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.grammar.wire import decode
from ninfer_vllm.limits import COMPILED_GRAMMAR_BYTES
from ninfer_vllm.vocabulary import Vocabulary

RAW_VOCABULARY = 0
"""The core's number for tokens given by their bytes."""

QUICK_S = 0.1
"""CPU seconds of compiling for the sample of the vocabulary up to which the engine compiles a grammar itself: then the
whole has never taken more than 18 times that, a fifth of the time that a build may take."""

QUICK_BYTES = COMPILED_GRAMMAR_BYTES // 32
"""Memory of the grammar compiled for the sample, likewise."""

DEFAULTS = (None, False, -1, None)
"""No other stop tokens, ended by one, any rollback, no temperature: how `xgrammar.GrammarMatcher` is made."""

RETIRE_SHARE = 4
"""A process that has grown by more than this share (one in …) of its memory limit is replaced: the C++ heap shrinks
rarely, and the next build deserves the whole limit."""


def main() -> None:
    """Answer builds until the input ends."""
    sink = _own_output()
    inbox: queue.SimpleQueue[frames.Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, inbox), daemon=True).start()
    setup = inbox.get()
    assert isinstance(setup, frames.Setup)
    builder = Builder(Vocabulary(setup.spellings, setup.classes, {}), setup.memory_bytes)
    _send(sink, frames.Ready())
    while True:
        message = inbox.get()
        assert isinstance(message, frames.Build)
        _send(sink, builder.answer(message.grammar))


class Builder:
    """Tries and compiles encoded grammars for one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, memory_bytes: int) -> None:
        self._core = _load_core()
        self._vocabulary = vocabulary
        self._sampled = self._tokenizer_info(sampled_spellings(vocabulary))
        self._row = np.zeros(vocabulary.words, np.int32)
        self._memory_bytes = memory_bytes
        self._start_bytes = _address_space()
        limit = self._start_bytes + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def answer(self, encoded: bytes) -> frames.Message:
        """The outcome of one build."""
        try:
            return self._build(encoded)
        except NInferError as error:
            return frames.Failed.of(error)
        except MemoryError:
            return frames.Failed.of(LimitExceeded("compile_memory_bytes", self._memory_bytes))
        except RuntimeError as error:
            if "bad_alloc" in str(error):
                return frames.Failed.of(LimitExceeded("compile_memory_bytes", self._memory_bytes))
            return frames.Failed.of(CompileFailed(str(error)))

    def _build(self, encoded: bytes) -> frames.Message:
        grammar = decode(encoded)
        count_nodes(grammar)
        grammar = merge_counts(prune(grammar))
        text = to_ebnf(grammar, self._vocabulary)
        if self._is_harmless(grammar, text):
            return frames.Harmless(text, self._retires)
        compiled = self._compiled(self._tokens, text)
        num_bytes = compiled.memory_size_bytes()
        if num_bytes > COMPILED_GRAMMAR_BYTES:
            raise LimitExceeded("compiled_grammar_bytes", COMPILED_GRAMMAR_BYTES, num_bytes)
        study(grammar, self._vocabulary, lambda: self._matcher(compiled))
        return frames.Built(str(compiled.serialize_json()), self._retires)

    def _is_harmless(self, grammar: Grammar, text: str) -> bool:
        """Whether a sample of the vocabulary shows that the whole takes little time and memory, and fast masks."""
        start = time.thread_time()
        compiled = self._compiled(self._sampled, text)
        if time.thread_time() - start > QUICK_S or compiled.memory_size_bytes() > QUICK_BYTES:
            return False
        return glance(grammar, self._vocabulary, lambda: self._matcher(compiled))

    def _compiled(self, tokens: Any, text: str) -> Any:
        return self._core.GrammarCompiler(tokens, 1, False, -1).compile_grammar_from_strings(text, ROOT)

    def _matcher(self, compiled: Any) -> _Matcher:
        return _Matcher(self._core.GrammarMatcher(compiled, *DEFAULTS), self._row)

    @cached_property
    def _tokens(self) -> Any:
        return self._tokenizer_info(core_spellings(self._vocabulary))

    def _tokenizer_info(self, spelled: list[bytes]) -> Any:
        ends = end_ids(self._vocabulary)
        return self._core.TokenizerInfo(spelled, RAW_VOCABULARY, len(self._vocabulary), ends, False)

    @property
    def _retires(self) -> bool:
        return _address_space() - self._start_bytes > self._memory_bytes // RETIRE_SHARE


class _Matcher:
    """A matcher of the core without its Python package."""

    def __init__(self, core: Any, row: npt.NDArray[np.int32]) -> None:
        self._core = core
        self._row = row

    def accept_token(self, token: int) -> bool:
        return bool(self._core.accept_token(token, False))

    def accept_bytes(self, data: bytes) -> bool:
        return bool(self._core.accept_string(data, False))

    def rollback(self, count: int) -> None:
        self._core.rollback(count)

    def fill(self) -> None:
        self._core.fill_next_token_bitmask(self._row, 0, False)


def _own_output() -> BinaryIO:
    """The standard output for frames only: what else writes there goes to the error stream."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sink


def _listen(source: BinaryIO, inbox: queue.SimpleQueue[frames.Message]) -> None:
    while (message := frames.read(source)) is not None:
        inbox.put(message)
    os._exit(0)


def _send(sink: BinaryIO, message: frames.Message) -> None:
    sink.write(frames.pack(message))
    sink.flush()


def _load_core() -> Any:
    """The core's binding without its Python package, whose imports take two seconds and 220 MB."""
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
    found = importlib.util.find_spec("xgrammar")
    assert found is not None
    package = types.ModuleType("xgrammar")
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules["xgrammar"] = package
    importlib.import_module("xgrammar.load_binding")
    # The binding's own handler writes a back-trace, for which a crashed process may wait for ever.
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    return importlib.import_module("xgrammar.tvm_ffi_binding._ffi_api")


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
