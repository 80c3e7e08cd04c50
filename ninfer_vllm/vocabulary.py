"""Token ids, their raw bytes and their class: the token domain of one model."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class TokenClass(IntEnum):
    """What a token may do under a constraint (TOK-2 to TOK-5)."""

    ORDINARY = 0
    """Matches by its bytes."""
    CONTROL = 1
    """Legal only where a grammar or a phase names its id."""
    EOS = 2
    """Ends a complete output."""
    UNUSABLE = 3
    """Padding, media and invalid ids: never a candidate."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The token domain: `spellings[id]` are raw bytes, `classes[id]` says what the token may do.

    Shapes: `spellings` and `classes` have one entry for each of the model's V columns, padding included.
    Identity, not equality, tells vocabularies apart: there is one a process and model.
    """

    spellings: tuple[bytes, ...]
    classes: bytes
    names: dict[str, int]
    """Visible text of control and EOS tokens -> id."""

    def __post_init__(self) -> None:
        assert len(self.spellings) == len(self.classes)

    def __len__(self) -> int:
        return len(self.spellings)

    @property
    def words(self) -> int:
        """32-bit words of one mask row: ceil(V / 32)."""
        return (len(self) + 31) // 32

    def ids(self, token_class: TokenClass) -> tuple[int, ...]:
        """All ids of one class, ascending."""
        return tuple(token for token, value in enumerate(self.classes) if value == token_class)

    def class_of(self, token: int) -> TokenClass:
        """The class of an id; ids outside the domain are unusable."""
        return TokenClass(self.classes[token]) if 0 <= token < len(self) else TokenClass.UNUSABLE
