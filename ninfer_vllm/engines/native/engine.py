"""`NativeEngine`: binds grammars to a vocabulary in milliseconds; everything else happens when it is first needed."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

from ninfer_vllm.engines.native.compiled import load_kernels
from ninfer_vllm.engines.native.facts import Facts, check_left_recursion
from ninfer_vllm.engines.native.grammar import Domain, Run
from ninfer_vllm.engines.native.matcher import NativeMatcher
from ninfer_vllm.engines.native.trie import trie_of
from ninfer_vllm.grammar.checks import count_nodes, prune
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.limits import NATIVE_TOTAL_BYTES
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

OWN_BYTES = 64 << 10
"""Measured memory of a small grammar with its first states."""

MEASURED_EVERY = 32
"""New grammars between two looks at the memory they all take."""

NODE_BYTES = 500
"""Measured memory of an expression with its facts."""


class NativeEngine:
    """Compiles grammars for one vocabulary. Thread-safe; each call is single-threaded."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._lock = threading.Lock()
        self._domain: Domain | None = None
        self._ends = frozenset(vocabulary.ids(TokenClass.EOS))
        self._grammars: weakref.WeakSet[NativeGrammar] = weakref.WeakSet()
        self._unmeasured = 0
        # Loading machine code takes a second, once a process: it starts before the first request asks for it.
        threading.Thread(target=load_kernels, name="ninfer-native", daemon=True).start()

    @property
    def name(self) -> str:
        """The name the `constraint` record gives."""
        return "native"

    def compile(self, grammar: Grammar) -> NativeGrammar:
        """Bind a checked grammar to the vocabulary.

        Errors: Unsatisfiable where the grammar derives no finite text; LimitExceeded where it passes a limit of this
        engine; UnsupportedByEngine where it is left-recursive.
        """
        num_nodes = count_nodes(grammar)
        facts = Facts(grammar)
        if not facts.is_productive:
            grammar = prune(grammar)
            facts = Facts(grammar)
        check_left_recursion(grammar, facts)
        domain = self._shared()
        compiled = NativeGrammar(lambda: Run(grammar, facts, domain), self._ends, num_nodes)
        self._keep_in_bounds(compiled)
        return compiled

    def close(self) -> None:
        """Nothing runs in the background."""

    def _shared(self) -> Domain:
        with self._lock:
            if self._domain is None:
                self._domain = Domain.of(self._vocabulary, trie_of(self._vocabulary))
            return self._domain

    def _keep_in_bounds(self, compiled: NativeGrammar) -> None:
        """Note a new grammar, and now and then drop what is known of those opened longest ago where all is too much."""
        with self._lock:
            self._grammars.add(compiled)
            self._unmeasured += 1
            if self._unmeasured < MEASURED_EVERY:
                return
            self._unmeasured = 0
            sizes = sorted(((known.opened, known) for known in self._grammars), key=lambda pair: pair[0])
        total = sum(known.run_bytes for _, known in sizes)
        for _, known in sizes:
            if total <= NATIVE_TOTAL_BYTES:
                break
            if not known.has_started_over:
                total -= known.run_bytes
                known.start_over()


class NativeGrammar:
    """A grammar bound to a vocabulary: shared by its matchers."""

    def __init__(self, new_run: Callable[[], Run], ends: frozenset[int], num_nodes: int) -> None:
        self._new_run = new_run
        self._ends = ends
        self._num_nodes = num_nodes
        self._lock = threading.Lock()
        self._run = new_run()
        self.opened = time.monotonic()
        """When the last matcher was made."""
        self.has_started_over = False
        """Whether what was found out has been let go of since then."""

    @property
    def engine(self) -> str:
        """The name the `constraint` record gives."""
        return "native"

    @property
    def nbytes(self) -> int:
        """Bytes of memory the grammar itself keeps alive; what is found out about it later is bounded by the engine."""
        return OWN_BYTES + NODE_BYTES * self._num_nodes

    @property
    def run_bytes(self) -> int:
        """About how much memory takes what was found out so far."""
        return self._run.nbytes

    def matcher(self) -> NativeMatcher:
        """A new matcher at the start of the grammar."""
        self.opened = time.monotonic()
        self.has_started_over = False
        return NativeMatcher(self, self._ends)

    def current(self) -> Run:
        """What is known about the grammar; a new start where it has grown too large."""
        with self._lock:
            if self._run.is_full:
                self._run = self._new_run()
                self.has_started_over = False
            return self._run

    def start_over(self) -> None:
        """Let go of what was found out; matchers that still use it move on when they are next told to forget."""
        self._run.is_full = True
        self.current()
        self.has_started_over = True
