"""The search over token sequences is bounded and finds a reading where there is one."""

import pytest

from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.ir import ExcludeToken, Token
from ninfer_vllm.testing import token_readings as search
from ninfer_vllm.testing.token_readings import Reading, Terminals, token_readings
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

SPELLINGS = (b"a", b"b", b"ab", b"abc", b"c", b"")
VOCABULARY = Vocabulary(SPELLINGS, bytes([TokenClass.ORDINARY] * 5 + [TokenClass.EOS]), {})


class ListMatcher:
    """Accepts exactly the given sequences of ids and their prefixes."""

    terminated = complete = False

    def __init__(self, *sequences: tuple[int, ...]) -> None:
        self.sequences = sequences
        self.taken: tuple[int, ...] = ()

    def accept(self, token: int) -> bool:
        longer = (*self.taken, token)
        fits = any(sequence[: len(longer)] == longer for sequence in self.sequences)
        self.taken = longer if fits else self.taken
        return fits

    def rollback(self, count: int) -> None:
        self.taken = self.taken[: len(self.taken) - count]

    def accept_bytes(self, data: bytes) -> int:
        raise AssertionError

    def fill(self, row: object) -> bool:
        raise AssertionError


def readings(
    matcher: ListMatcher, text: bytes, *terminals: Token | ExcludeToken
) -> list[tuple[Reading, tuple[int, ...]]]:
    candidates = Terminals.of(terminals, VOCABULARY)
    return [(reading, matcher.taken) for reading in token_readings(matcher, text, 0, candidates)]


def test_every_sequence_that_spells_the_text_is_a_reading() -> None:
    found = readings(ListMatcher((2, 4), (0, 1, 4), (3,)), b"abc", ExcludeToken(frozenset()))
    assert [taken for _, taken in found] == [(3,), (2, 4), (0, 1, 4)]
    assert all(reading == Reading(3, legal=True, whole=True) for reading, _ in found)


def test_text_that_ends_inside_a_token_is_only_a_prefix() -> None:
    assert readings(ListMatcher((3,)), b"ab", Token(frozenset({3}))) == [(Reading(2, legal=True, whole=False), ())]


def test_text_without_a_reading_is_told_where_it_fails() -> None:
    assert readings(ListMatcher((2, 4)), b"abb", Token(frozenset({2}))) == [(Reading(2, legal=False, whole=False), ())]


def test_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "TOKEN_READINGS", 3)
    with pytest.raises(LimitExceeded, match="token_readings"):
        readings(ListMatcher((0,) * 9), b"a" * 9, Token(frozenset({0})))
