"""Units: what grammars have in common is found out once."""

import pytest

from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.engines.native.kinds import WIDE
from ninfer_vllm.engines.native.regulars import RegularUnit, ends_surely
from ninfer_vllm.engines.native.trie import trie_of
from ninfer_vllm.engines.native.units import GrammarUnits, SharedUnits
from ninfer_vllm.grammar.ir import Regular
from tests.support.vocabularies import byte_vocabulary

QUOTE = ord('"')
DIGITS = CharSet.from_ranges([(0x30, 0x39)])
UNQUOTED = ANY - CharSet.from_chars('"')


def number() -> Regular:
    """One digit or more; a new value each time."""
    return Regular(Dfa((((DIGITS, 1),), ((DIGITS, 1),)), frozenset((1,))))


def all_but(letter: str) -> Regular:
    """Texts without quotes that do not begin with a letter: free text behind the first character."""
    first = UNQUOTED - CharSet.from_chars(letter)
    return Regular(Dfa((((first, 1),), ((UNQUOTED, 1),)), frozenset((0, 1))))


@pytest.fixture
def shared() -> SharedUnits:
    vocabulary = byte_vocabulary()
    return SharedUnits(trie_of(vocabulary), vocabulary.words)


@pytest.mark.contract("CMP-1", "PRF-4")
def test_equal_numbers_of_two_grammars_are_one_unit(shared: SharedUnits) -> None:
    one, other = GrammarUnits(shared), GrammarUnits(shared)
    assert one.regular(number(), None) is other.regular(number(), None)


@pytest.mark.contract("CMP-1", "PRF-4")
def test_free_text_behind_different_beginnings_is_covered_once(shared: SharedUnits) -> None:
    rows = []
    for letter in "ab":
        unit = GrammarUnits(shared).regular(all_but(letter), QUOTE)
        state, read = unit.run(RegularUnit.start, b"xyz")
        assert read == 3
        assert unit.num_live(state) >= WIDE
        rows.append(unit.covered(state).row)
    assert rows[0] is rows[1]


@pytest.mark.contract("GEN-1")
def test_unit_ends_behind_its_terminator_and_reads_nothing_more(shared: SharedUnits) -> None:
    unit = shared.private(all_but("a"), QUOTE)
    state, read = unit.run(RegularUnit.start, b'x"y')
    assert (read, unit.ends(state), unit.segments(state)) == (2, True, ())
    assert unit.run(RegularUnit.start, b"ax") == (-1, 0)


@pytest.mark.contract("GEN-1")
def test_terminator_that_the_text_may_hold_is_none() -> None:
    assert ends_surely(all_but("a"), QUOTE)
    assert not ends_surely(all_but("a"), ord("b"))
    assert not ends_surely(all_but("a"), 0xC3)
