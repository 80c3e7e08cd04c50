"""The only seam between grammars and the engines that run them: Engine, CompiledGrammar, Matcher."""

from __future__ import annotations

from typing import Literal, Protocol

from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.masks.bits import MaskRow

EngineName = Literal["native", "xgrammar"]
"""The engines a server can be started with."""


class Matcher(Protocol):
    """Where one sample stands in its grammar; owned by one session, never shared."""

    def accept(self, token: int) -> bool:
        """Advance by one token; False (and nothing changed) where it is illegal. EOS terminates a complete text."""

    def accept_bytes(self, data: bytes) -> int:
        """Advance over text without tokens; returns how many bytes were accepted.

        All of them, or nothing has changed and the result is the offset of the first wrong byte.
        """

    def rollback(self, count: int) -> None:
        """Undo the last `count` accepted tokens."""

    def forget(self) -> int:
        """Drop what `rollback` needs: what was accepted so far is committed.

        Returns how many of the dropped tokens stood before the content.
        """

    def fill(self, row: MaskRow) -> bool:
        """Write the legal set of the next token over the whole row; returns whether any token is legal."""

    @property
    def complete(self) -> bool:
        """Whether the text so far is in the language (EOS is legal now), or has already been ended by EOS."""

    @property
    def terminated(self) -> bool:
        """Whether EOS has been accepted."""


class CompiledGrammar(Protocol):
    """A grammar bound to a vocabulary: immutable and shared."""

    @property
    def engine(self) -> str:
        """The name of the engine that runs it, for the `constraint` record."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory this object keeps alive, for the cache budget."""

    def matcher(self) -> Matcher:
        """A new matcher at the start of the grammar."""


class Engine(Protocol):
    """Compiles grammars for one vocabulary. Thread-safe; each call is single-threaded."""

    @property
    def name(self) -> str:
        """The engine's name: "native" or "xgrammar"."""

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Bind a checked grammar to the vocabulary.

        Errors: LimitExceeded where a limit of this engine is passed; UnsupportedByEngine where the grammar holds a
        construct this engine does not run.
        """

    def close(self) -> None:
        """End what the engine keeps running."""
