"""Which token ids a user's grammar may name."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_vllm.grammar.ir import NOTHING, ExcludeToken, Expr, Token
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

ID_DIGITS = 10
MAX_ID = 2**31 - 1
"""Token ids are 32-bit integers in every engine."""


@dataclass(frozen=True, slots=True)
class TokenDomain:
    """The model's tokens; without a vocabulary only the size of an id is checked."""

    vocabulary: Vocabulary | None

    def refusal(self, token: int) -> str | None:
        """Why a grammar may not name the token, or None where it may."""
        if self.vocabulary is None:
            return f"a token id is at most {MAX_ID}" if token > MAX_ID else None
        found = self.vocabulary.class_of(token)
        if found in (TokenClass.EOS, TokenClass.CONTROL):
            return f"token {token} ends or frames the output: expected an ordinary token"
        if found is TokenClass.UNUSABLE:
            return f"token {token} is not a token of text of this model: expected an ordinary token"
        return None

    def only(self, ids: frozenset[int]) -> Expr:
        """One of the tokens."""
        return Token(ids)

    def all_but(self, ids: frozenset[int]) -> Expr:
        """One ordinary token that is none of these, if one remains."""
        if self.vocabulary is not None and ids.issuperset(self.vocabulary.ids(TokenClass.ORDINARY)):
            return NOTHING
        return ExcludeToken(ids)
