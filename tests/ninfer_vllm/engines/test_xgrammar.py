"""Masks, acceptance and rollback of the xgrammar engine against an independent recogniser."""

import random

import numpy as np
import pytest
import xgrammar
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.byteset import ByteSet
from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.engines.protocol import CompiledGrammar, Matcher
from ninfer_vllm.engines.tokens import core_spellings, end_ids
from ninfer_vllm.engines.xgrammar import XgrammarEngine
from ninfer_vllm.errors import LimitExceeded, MatcherInconsistency, Unsatisfiable, UnsupportedByEngine
from ninfer_vllm.grammar import ebnf
from ninfer_vllm.grammar.checks import productive_rules, prune
from ninfer_vllm.grammar.ir import (
    Alternation,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Literal,
    Repeat,
    Rule,
    Sequence,
    Token,
    text,
)
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.limits import NESTING_DEPTH
from tests.support.grammars import CONTROL, EOS, NUM_TOKENS, OTHER_EOS, UNUSABLE, WORDS, grammars, word_vocabulary
from tests.support.oracles.recogniser import Recogniser
from tests.support.vocabularies import byte_vocabulary, token_of

FEWER = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def matcher(engine: XgrammarEngine, body: Expr, **rules: Expr) -> Matcher:
    return engine.compile(Grammar({"root": body, **rules}, "root")).matcher()


def compiled(engine: XgrammarEngine, grammar: Grammar) -> CompiledGrammar:
    """A random grammar, if it has a text and not ever more readings of one."""
    assume("r0" in productive_rules(grammar))
    try:
        return engine.compile(grammar)
    except LimitExceeded as error:
        assume(error.limit not in {"mask_s", "character_s"})
        raise


def legal(matcher: Matcher, num_words: int = 1) -> set[int]:
    """The ids of the mask; the row comes poisoned."""
    row = np.full(num_words, -1, np.int32)
    assert matcher.fill(row) == bool(row.any())
    return {token for token in range(32 * num_words) if row[token // 32] >> (token % 32) & 1}


def scanned(recogniser: Recogniser, prefix: bytes) -> set[int]:
    """The ids that a plain scan over the vocabulary finds."""
    found = {token for token, word in enumerate(WORDS) if recogniser.is_prefix(prefix + word)}
    return found | ({EOS, OTHER_EOS} if recogniser.accepts(prefix) else set())


@pytest.mark.contract("GEN-1", "GEN-2", "TOK-3", "TOK-4", "MSK-1")
@FEWER
@given(grammars(), st.randoms(use_true_random=False))
def test_masks_along_a_walk_are_those_of_a_plain_scan(
    words: XgrammarEngine, grammar: Grammar, rng: random.Random
) -> None:
    walker, recogniser = compiled(words, grammar).matcher(), Recogniser(grammar)
    prefix = b""
    for _ in range(4):
        expected = scanned(recogniser, prefix)
        assert legal(walker) == expected
        assert walker.complete == recogniser.accepts(prefix)
        for token in set(range(NUM_TOKENS)) - expected:
            assert not walker.accept(token)
        ordinary = sorted(expected - {EOS, OTHER_EOS})
        if not ordinary:
            break
        token = rng.choice(ordinary)
        assert walker.accept(token)
        prefix += WORDS[token]


@pytest.mark.contract("SES-3", "SES-4")
@FEWER
@given(grammars(), st.randoms(use_true_random=False))
def test_rollback_restores_masks_bit_for_bit(words: XgrammarEngine, grammar: Grammar, rng: random.Random) -> None:
    walker = compiled(words, grammar).matcher()
    seen = [legal(walker)]
    while len(seen) < 6 and seen[-1]:
        assert walker.accept(rng.choice(sorted(seen[-1])))
        seen.append(legal(walker))
    while len(seen) > 1:
        count = rng.randint(1, len(seen) - 1)
        walker.rollback(count)
        del seen[-count:]
        assert legal(walker) == seen[-1]
        assert not walker.terminated


@FEWER
@given(grammars(), st.text(st.sampled_from("abcé€d"), min_size=1, max_size=6), st.integers(0, 2))
def test_accept_bytes_gives_the_offset_of_the_first_wrong_byte(
    words: XgrammarEngine, grammar: Grammar, value: str, cut: int
) -> None:
    walker, recogniser = compiled(words, grammar).matcher(), Recogniser(grammar)
    data = value.encode()[: len(value.encode()) - cut]
    before = legal(walker)
    accepted = walker.accept_bytes(data)
    assert accepted == max(length for length in range(len(data) + 1) if recogniser.is_prefix(data[:length]))
    assert legal(walker) == (scanned(recogniser, data) if accepted == len(data) else before)


@pytest.mark.contract("GEN-3")
@FEWER
@given(grammars(), st.randoms(use_true_random=False))
def test_samples_are_accepted_and_complete(words: XgrammarEngine, grammar: Grammar, rng: random.Random) -> None:
    walker = compiled(words, grammar).matcher()
    value = sample(grammar, rng, 20)
    assert walker.accept_bytes(value) == len(value)
    assert walker.complete
    assert walker.accept(EOS)


@pytest.mark.parametrize("block", [1, 2, 3])
@FEWER
@given(grammars(), st.lists(st.text(st.sampled_from("abcé€"), max_size=7), max_size=6))
def test_blocks_and_shared_rules_keep_the_language(block: int, grammar: Grammar, texts: list[str]) -> None:
    assume("r0" in productive_rules(grammar))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ebnf, "BLOCK", block)
        patch.setattr(ebnf, "IN_PLACE", 0)
        patch.setattr(ebnf, "SPELLED_OUT", block)
        patch.setattr(ebnf, "WIDE", 1)
        printed = ebnf.to_ebnf(prune(grammar), word_vocabulary())
    compiled, recogniser = compiled_here(printed), Recogniser(grammar)
    for value in texts:
        core = xgrammar.GrammarMatcher(compiled)
        assert (not value or core.accept_string(value)) == recogniser.is_prefix(value)
        assert not recogniser.is_prefix(value) or core.is_completed() == recogniser.accepts(value)


def compiled_here(printed: str) -> xgrammar.CompiledGrammar:
    """A text compiled in this process: only for texts that are known to be harmless."""
    vocabulary = word_vocabulary()
    tokens = xgrammar.TokenizerInfo(
        core_spellings(vocabulary), vocab_size=len(vocabulary), stop_token_ids=end_ids(vocabulary)
    )
    return xgrammar.GrammarCompiler(tokens, max_threads=1, cache_enabled=False).compile_grammar(printed)


@pytest.mark.contract("GEN-2")
def test_complete_content_may_continue(octets: XgrammarEngine) -> None:
    walker = matcher(octets, Repeat(Chars(CharSet.from_chars("0123456789")), 1, None))
    assert not walker.complete
    assert walker.accept(token_of(b"1"))
    assert walker.complete
    assert not walker.terminated
    assert token_of(b"2") in legal(walker, byte_vocabulary().words)


@pytest.mark.contract("SPC-5")
def test_nothing_is_legal_after_eos_and_rollback_undoes_it(words: XgrammarEngine) -> None:
    walker = matcher(words, Repeat(text("a"), 0, None))
    before = legal(walker)
    assert walker.accept(OTHER_EOS)
    assert walker.terminated
    assert walker.complete
    assert legal(walker) == set()
    assert not walker.accept(0)
    assert not walker.accept(EOS)
    assert walker.accept_bytes(b"a") == 0
    walker.rollback(1)
    assert legal(walker) == before


def test_eos_is_refused_before_the_content_is_complete(words: XgrammarEngine) -> None:
    walker = matcher(words, text("ab"))
    assert not walker.accept(EOS)
    assert walker.accept(0)
    assert not walker.accept(OTHER_EOS)
    assert legal(walker) == {1}


@pytest.mark.contract("TOK-3", "TOK-4")
def test_token_terminals_go_by_id_and_never_by_spelling(words: XgrammarEngine) -> None:
    walker = matcher(words, Sequence((Token(frozenset([CONTROL])), text("a"))))
    assert legal(walker) == {CONTROL}
    assert not walker.accept(0)
    assert walker.accept_bytes(b"a") == 0
    assert walker.accept(CONTROL)
    assert CONTROL not in legal(walker)
    assert walker.accept(0)


def test_an_ordinary_token_can_be_named_by_id(words: XgrammarEngine) -> None:
    walker = matcher(words, Token(frozenset([1, 5])))
    assert legal(walker) == {1, 5}


@pytest.mark.contract("TOK-2", "TOK-3")
def test_reserved_ids_of_a_token_terminal_are_never_legal(words: XgrammarEngine) -> None:
    walker = matcher(words, Alternation((Token(frozenset([EOS, UNUSABLE, 99])), text("b"))))
    assert legal(walker) == {token for token, word in enumerate(WORDS) if word == b"b"}


@pytest.mark.contract("TOK-2", "TOK-3")
@pytest.mark.parametrize("excluded", [set(), {0}, {0, CONTROL, EOS}])
def test_excluding_tokens_leaves_the_other_ordinary_ones(words: XgrammarEngine, excluded: set[int]) -> None:
    walker = matcher(words, ExcludeToken(frozenset(excluded)))
    assert legal(walker) == set(range(len(WORDS))) - excluded


def test_excluding_tokens_works_without_control_tokens() -> None:
    vocabulary = byte_vocabulary()
    plain = type(vocabulary)(vocabulary.spellings[:257], vocabulary.classes[:257], {})
    assert "Token(0,1," in ebnf.to_ebnf(Grammar({"root": ExcludeToken(frozenset())}, "root"), plain)


@pytest.mark.contract("TOK-2", "TOK-3", "MSK-1")
def test_any_character_allows_no_control_eos_or_padding_bit(octets: XgrammarEngine) -> None:
    vocabulary = byte_vocabulary()
    walker = matcher(octets, Repeat(Chars(ANY), 1, None))
    mask = legal(walker, vocabulary.words)
    assert max(mask) < len(vocabulary)
    assert {vocabulary.class_of(token) for token in mask} == {0}
    assert {token for token in mask if token < 256} == set(range(0x80)) | set(range(0xC2, 0xF5))


@pytest.mark.contract("GEN-1", "TOK-1")
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 0x10FFFF)).map(sorted), min_size=1, max_size=4),
    st.data(),
)
def test_character_classes_are_exact_to_the_byte(
    octets: XgrammarEngine, ranges: list[list[int]], data: st.DataObject
) -> None:
    chars = CharSet.from_ranges((low, high) for low, high in ranges)
    assume(chars)
    walker = matcher(octets, Chars(chars))
    edges = [code + step for low, high in chars.ranges for code in (low, high) for step in (-1, 0, 1)]
    code = data.draw(st.sampled_from(edges))
    assume(0 <= code <= 0x10FFFF)
    encoded = chr(code).encode("utf-8", "surrogatepass")
    taken = [walker.accept(byte) for byte in encoded]
    assert all(taken) == (code in chars)
    assert walker.complete == (code in chars)


@pytest.mark.parametrize("value", ["\0", '"', "\\", "]", "^", "-", "\n\r\t", "a{2}", "(= b)", "# c", "é海😀", "\\x41B"])
def test_every_character_can_be_written(octets: XgrammarEngine, value: str) -> None:
    walker = matcher(octets, Sequence((text(value), Chars(CharSet.from_chars(value)))))
    assert walker.accept_bytes((value + value[-1]).encode()) == len((value + value[-1]).encode())
    assert walker.complete


@pytest.mark.contract("GEN-6")
@pytest.mark.parametrize("body", [Literal(b"\xff"), Literal(b"a\xc3"), Bytes(ByteSet.of([0xC3, 0x61]))])
def test_bytes_that_are_no_text_are_refused(words: XgrammarEngine, body: Expr) -> None:
    with pytest.raises(UnsupportedByEngine) as caught:
        matcher(words, body)
    assert caught.value.engine == "xgrammar"


@pytest.mark.contract("CMP-9", "ERR-6")
@pytest.mark.parametrize(
    "rules",
    [
        {"root": Alternation((Rule("x"), text("a"))), "x": Repeat(Rule("x"), 3, 3)},
        {"root": Alternation((Rule("x"), text("a"))), "x": Repeat(Rule("x"), 0, 3)},
        {"root": Rule("x"), "x": Repeat(Rule("y"), 0, 2), "y": Repeat(Rule("x"), 3, 6)},
        {"root": text("a"), "x": Repeat(Rule("x"), 3, 3)},
        {"root": Alternation((Repeat(Rule("root"), 2, 2), text("a")))},
    ],
)
def test_rules_that_repeat_themselves_do_not_crash(words: XgrammarEngine, rules: dict[str, Expr]) -> None:
    grammar = Grammar(rules, "root")
    walker, recogniser = words.compile(grammar).matcher(), Recogniser(grammar)
    assert legal(walker) == scanned(recogniser, b"")


@pytest.mark.contract("ERR-6")
def test_a_grammar_that_only_repeats_itself_is_unsatisfiable(words: XgrammarEngine) -> None:
    with pytest.raises(Unsatisfiable):
        matcher(words, Rule("x"), x=Repeat(Rule("x"), 3, 3))


@pytest.mark.contract("GEN-6")
def test_counts_beyond_the_cores_integers_are_refused(words: XgrammarEngine) -> None:
    with pytest.raises(LimitExceeded) as caught:
        matcher(words, Repeat(text("a"), 2**32 + 2, None))
    assert caught.value.limit == "repeat_bound"


@pytest.mark.contract("ERR-6")
def test_deep_nesting_compiles(words: XgrammarEngine) -> None:
    expr: Expr = text("a")
    for _ in range(NESTING_DEPTH):
        expr = Alternation((Sequence((text("b"), expr, text("c"))), text("a")))
    walker = matcher(words, expr)
    assert walker.accept_bytes(b"bbbaccc") == 7
    assert walker.complete


def test_long_counted_repetitions_are_exact(words: XgrammarEngine) -> None:
    item = Alternation((text("a"), Sequence((text("b"), text("c")))))
    low, high = 70, 300
    grammar = words.compile(Grammar({"root": Repeat(item, low, high)}, "root"))
    for count in (0, 1, 31, 32, 33, 69, 70, 71, 101, 102, 150, 299, 300, 301):
        walker = grammar.matcher()
        data = b"abc" * (count // 2) + b"a" * (count % 2)
        accepted = walker.accept_bytes(data)
        assert (accepted == len(data)) == (count <= high)
        assert count > high or walker.complete == (count >= low)


@pytest.mark.contract("MSK-1")
def test_a_row_is_written_in_place_inside_a_larger_buffer(octets: XgrammarEngine) -> None:
    num_words = byte_vocabulary().words
    buffer = np.full((3, num_words), 0x5A5A5A5A, np.int32)
    assert matcher(octets, text("a")).fill(buffer[1])
    assert (buffer[[0, 2]] == 0x5A5A5A5A).all()
    assert buffer[1, 97 // 32] == 1 << (97 % 32)
    assert np.count_nonzero(buffer[1]) == 1


def test_rollback_beyond_the_history_is_an_inconsistency_of_ours(words: XgrammarEngine) -> None:
    walker = matcher(words, text("a"))
    for count in (1, -1):
        with pytest.raises(MatcherInconsistency):
            walker.rollback(count)


@pytest.mark.contract("CMP-1")
def test_matchers_of_one_grammar_are_independent(words: XgrammarEngine) -> None:
    grammar = words.compile(Grammar({"root": text("ab")}, "root"))
    first, second = grammar.matcher(), grammar.matcher()
    assert first.accept(0)
    assert legal(second) == {token for token, word in enumerate(WORDS) if b"ab".startswith(word)}
    assert grammar.nbytes > 0
