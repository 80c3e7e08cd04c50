"""Other grammar engines as they are shipped, for comparisons on the user's own machine; nothing serves through them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from ninfer_vllm.masks.bits import MaskRow


class PeerMatcher(Protocol):
    """What is timed of a peer."""

    def fill(self, row: MaskRow) -> object:
        """Write the mask of the next token."""

    def accept(self, token: int) -> bool:
        """Take a token; whether it was legal."""


class PeerGrammar(Protocol):
    """A compiled schema."""

    def matcher(self) -> PeerMatcher:
        """A new matcher at the start."""


class Peer(Protocol):
    """An engine that reads JSON Schema by itself."""

    def compile(self, schema: Any) -> PeerGrammar:
        """Compile a schema with nothing cached.

        Errors: ValueError where the peer refuses the schema.
        """


class StockXgrammar:
    """xgrammar's own schema converter and matcher."""

    def __init__(self, tokenizer: Any, vocab_size: int, ends: list[int]) -> None:
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size, stop_token_ids=ends)
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._matcher = xgrammar.GrammarMatcher

    def compile(self, schema: Any) -> PeerGrammar:
        """Compile a schema.

        Errors: ValueError where it is refused.
        """
        try:
            text = json.dumps(schema)
            compiled = self._compiler.compile_json_schema(text, any_whitespace=False, separators=(",", ":"))
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        return _XgrammarGrammar(lambda: self._matcher(compiled))


class _XgrammarGrammar:
    def __init__(self, new_core: Callable[[], Any]) -> None:
        self._new_core = new_core

    def matcher(self) -> PeerMatcher:
        return _XgrammarMatcher(self._new_core())


class _XgrammarMatcher:
    def __init__(self, core: Any) -> None:
        self._core = core

    def fill(self, row: MaskRow) -> None:
        import torch

        self._core.fill_next_token_bitmask(torch.from_numpy(row).unsqueeze(0), 0)

    def accept(self, token: int) -> bool:
        return bool(self._core.accept_token(token))


class Llguidance:
    """llguidance, where it is installed.

    Errors: ModuleNotFoundError where it is not.
    """

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        import llguidance
        import llguidance.hf

        self._matcher = llguidance.LLMatcher
        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocab_size)

    def compile(self, schema: Any) -> PeerGrammar:
        """Compile a schema.

        Errors: ValueError where it is refused.
        """
        grammar = self._matcher.grammar_from_json_schema(schema, defaults={"whitespace_flexible": False})
        core = self._matcher(self._tokenizer, grammar, log_level=0)
        if core.is_error():
            raise ValueError(core.get_error())
        return _LlguidanceGrammar(core)


class _LlguidanceGrammar:
    def __init__(self, core: Any) -> None:
        self._core = core

    def matcher(self) -> PeerMatcher:
        return _LlguidanceMatcher(self._core.deep_copy())


class _LlguidanceMatcher:
    def __init__(self, core: Any) -> None:
        self._core = core

    def fill(self, row: MaskRow) -> None:
        self._core.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)

    def accept(self, token: int) -> bool:
        return bool(self._core.consume_token(token))
