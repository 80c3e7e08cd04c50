"""The xgrammar core's own reader of grammar texts, over single bytes: a second opinion on the dialect."""

from __future__ import annotations

import xgrammar

END = 256
BYTES = [bytes([value]) for value in range(END)]


class Core:
    """Compiles grammar texts as they are; keep self-repeating rules away from it, they end the process."""

    def __init__(self) -> None:
        tokens = xgrammar.TokenizerInfo([*BYTES, b"</s>"], vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[END])
        self._compiler = xgrammar.GrammarCompiler(tokens, max_threads=1, cache_enabled=False)

    def judge(self, text: str, words: list[str]) -> list[tuple[bool, bool]] | None:
        """For each word, whether it is a prefix and whether it is whole; None where the core refuses the text."""
        try:
            compiled = self._compiler.compile_grammar(xgrammar.Grammar.from_ebnf(text))
        except RuntimeError:
            return None
        return [_judge(xgrammar.GrammarMatcher(compiled), word) for word in words]


def _judge(matcher: xgrammar.GrammarMatcher, word: str) -> tuple[bool, bool]:
    prefix = matcher.accept_string(word)
    return prefix, prefix and matcher.accept_token(END)
