"""The xgrammar engine: the IR printed as its grammar text, its matcher behind our protocol."""

from __future__ import annotations

import threading
from functools import cached_property

import numpy as np
import torch
import xgrammar

from ninfer_vllm.engines.frames import Built
from ninfer_vllm.engines.isolation import WorkerPool
from ninfer_vllm.engines.tokens import core_spellings, end_ids
from ninfer_vllm.errors import CompileFailed, MatcherInconsistency
from ninfer_vllm.grammar.ebnf import ROOT
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.grammar.wire import encode
from ninfer_vllm.limits import COMPILE_TIMEOUT_S
from ninfer_vllm.masks.bits import MaskRow
from ninfer_vllm.vocabulary import TokenClass, Vocabulary


class XgrammarEngine:
    """Compiles grammars for one vocabulary with the xgrammar core. Thread-safe; each call is single-threaded.

    A process of its own tries every grammar first, and compiles the large ones: on a grammar of a user the core can
    hang, exhaust memory or crash.
    """

    def __init__(self, vocabulary: Vocabulary, *, timeout_s: float = COMPILE_TIMEOUT_S) -> None:
        self._vocabulary = vocabulary
        self._lock = threading.Lock()
        self._tokens: xgrammar.TokenizerInfo | None = None
        self._pool = WorkerPool(vocabulary, timeout_s=timeout_s)

    @property
    def name(self) -> str:
        """The name the `constraint` record gives."""
        return "xgrammar"

    def compile(self, grammar: Grammar) -> XgrammarGrammar:
        """Bind a checked grammar to the vocabulary.

        Errors: Unsatisfiable where the grammar derives no finite text; LimitExceeded where it passes a limit of this
        engine; UnsupportedByEngine where it holds bytes that are no UTF-8; CompileFailed where the core refuses it.
        """
        answer = self._pool.build(encode(grammar))
        tokens = self._tokenizer_info()
        try:
            if isinstance(answer, Built):
                compiled = xgrammar.CompiledGrammar.deserialize_json(answer.compiled, tokens)
            else:
                compiler = xgrammar.GrammarCompiler(tokens, max_threads=1, cache_enabled=False)
                compiled = compiler.compile_grammar(answer.text, root_rule_name=ROOT)
        except RuntimeError as error:
            raise CompileFailed(str(error)) from error
        return XgrammarGrammar(compiled, self._vocabulary)

    def close(self) -> None:
        """End the compile processes."""
        self._pool.close()

    def _tokenizer_info(self) -> xgrammar.TokenizerInfo:
        with self._lock:
            if self._tokens is None:
                self._tokens = xgrammar.TokenizerInfo(
                    core_spellings(self._vocabulary),
                    xgrammar.VocabType.RAW,
                    vocab_size=len(self._vocabulary),
                    stop_token_ids=end_ids(self._vocabulary),
                )
            return self._tokens


class XgrammarGrammar:
    """A grammar the core has compiled: immutable and shared."""

    def __init__(self, compiled: xgrammar.CompiledGrammar, vocabulary: Vocabulary) -> None:
        self._compiled = compiled
        self._vocabulary = vocabulary

    @property
    def engine(self) -> str:
        """The name the `constraint` record gives."""
        return "xgrammar"

    @cached_property
    def nbytes(self) -> int:
        """Bytes of memory this object keeps alive, for the cache budget."""
        return int(self._compiled.memory_size_bytes)

    def matcher(self) -> XgrammarMatcher:
        """A new matcher at the start of the grammar."""
        return XgrammarMatcher(xgrammar.GrammarMatcher(self._compiled), self._vocabulary)


class XgrammarMatcher:
    """Where one sample stands in its grammar."""

    def __init__(self, core: xgrammar.GrammarMatcher, vocabulary: Vocabulary) -> None:
        self._core = core
        self._vocabulary = vocabulary
        beyond = 32 * vocabulary.words - len(vocabulary)
        self._last_word = np.array(0xFFFFFFFF >> beyond, np.uint32).astype(np.int32)

    def accept(self, token: int) -> bool:
        """Advance by one token; False (and nothing changed) where it is illegal."""
        if self.terminated or not self._can_be_legal(token):
            return False
        return bool(self._core.accept_token(token))

    def accept_bytes(self, data: bytes) -> int:
        """Advance over text without tokens; returns how many bytes were accepted."""
        if not data or self.terminated:
            return 0
        if self._core.accept_string(data):
            return len(data)
        return self._first_wrong_byte(data)

    def rollback(self, count: int) -> None:
        """Undo the last `count` accepted tokens."""
        if count < 0:
            raise MatcherInconsistency(f"rollback of {count} tokens")
        try:
            self._core.rollback(count)
        except RuntimeError as error:
            raise MatcherInconsistency(f"the core cannot roll back {count} tokens: {error}") from error

    def forget(self) -> int:
        """Nothing: the core keeps its history until the matcher goes."""
        return 0

    def fill(self, row: MaskRow) -> bool:
        """Write the legal set of the next token over the whole row; returns whether any token is legal."""
        if self.terminated:
            row.fill(0)
            return False
        # The core reads no strides: a row with gaps would be written in the wrong places.
        assert row.flags.c_contiguous
        assert row.shape == (self._vocabulary.words,)
        self._core.fill_next_token_bitmask(torch.from_numpy(row))
        # The core leaves bits beyond the vocabulary as they come.
        row[-1] &= self._last_word
        return bool(row.any())

    @property
    def complete(self) -> bool:
        """Whether the text so far is in the language, or has already been ended by EOS."""
        return self.terminated or bool(self._core.is_completed())

    @property
    def terminated(self) -> bool:
        """Whether EOS has been accepted."""
        return bool(self._core.is_terminated())

    def _can_be_legal(self, token: int) -> bool:
        """The core warns on the error stream where a token has no bytes or lies outside the vocabulary."""
        token_class = self._vocabulary.class_of(token)
        if token_class is TokenClass.ORDINARY:
            return bool(self._vocabulary.spellings[token])
        return token_class is not TokenClass.UNUSABLE

    def _first_wrong_byte(self, data: bytes) -> int:
        """The length of the longest prefix the core accepts, by bisection; the state stays as it was."""
        accepted, refused = 0, len(data)
        while refused - accepted > 1:
            middle = (accepted + refused) // 2
            if self._core.accept_string(data[:middle]):
                self._core.rollback(1)
                accepted = middle
            else:
                refused = middle
        return accepted
