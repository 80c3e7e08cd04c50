"""Masks of the native engine against a plain scan of the vocabulary with an independent recogniser."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.engines.native import automaton, listings, walking
from ninfer_vllm.engines.native.engine import NativeEngine, NativeGrammar
from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.errors import Unsatisfiable, UnsupportedByEngine
from ninfer_vllm.grammar.checks import productive_rules, prune
from ninfer_vllm.grammar.ir import Alternation, Chars, Expr, Grammar, Literal, Repeat, Rule, Sequence
from tests.support import grammars as narrow_domain
from tests.support import wide_grammars as wide_domain
from tests.support.grammars import grammars
from tests.support.oracles.recogniser import Recogniser

MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEEDS_A_TEST = 60


def legal(matcher: Matcher, num_tokens: int) -> set[int]:
    """The ids of the mask; the row comes poisoned."""
    row = np.full((num_tokens + 31) // 32, -1, np.int32)
    assert matcher.fill(row) == bool(row.any())
    return {token for token in range(32 * len(row)) if row[token // 32] >> (token % 32) & 1}


def scanned(recogniser: Recogniser, prefix: bytes, words: tuple[bytes, ...], ends: set[int]) -> set[int]:
    """The ids that a plain scan finds."""
    found = {token for token, word in enumerate(words) if recogniser.is_prefix(prefix + word)}
    return found | (ends if recogniser.accepts(prefix) else set())


def compiled(engine: NativeEngine, grammar: Grammar) -> NativeGrammar | None:
    try:
        return engine.compile(grammar)
    except (Unsatisfiable, UnsupportedByEngine):
        return None


@pytest.mark.contract("GEN-1", "GEN-2", "TOK-3", "TOK-4", "MSK-1")
@MANY
@given(grammars(), st.randoms(use_true_random=False))
def test_masks_along_a_walk_are_those_of_a_plain_scan(native: NativeEngine, grammar: Grammar, rng: object) -> None:
    assume("r0" in productive_rules(grammar))
    found = compiled(native, grammar)
    assume(found is not None)
    assert found is not None
    matcher, recogniser, prefix = found.matcher(), Recogniser(grammar), b""
    ends = {narrow_domain.EOS, narrow_domain.OTHER_EOS}
    for _ in range(5):
        expected = scanned(recogniser, prefix, narrow_domain.WORDS, ends)
        assert legal(matcher, narrow_domain.NUM_TOKENS) == expected
        assert matcher.complete == recogniser.accepts(prefix)
        for token in set(range(-1, narrow_domain.NUM_TOKENS + 1)) - expected:
            assert not matcher.accept(token)
        ordinary = sorted(expected - ends)
        if not ordinary:
            break
        token = rng.choice(ordinary)  # type: ignore[attr-defined]
        assert matcher.accept(token)
        prefix += narrow_domain.WORDS[token]


@pytest.mark.contract("GEN-1", "MSK-1", "SES-4", "SES-6")
@pytest.mark.parametrize("first", range(0, 6 * SEEDS_A_TEST, SEEDS_A_TEST))
def test_masks_with_free_text_and_counts_are_those_of_a_plain_scan(wide: NativeEngine, first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        found = compiled(wide, wide_domain.wide_grammar(seed))
        if found is not None:
            walk_wide(found, prune(wide_domain.wide_grammar(seed)), random.Random(seed))


@pytest.mark.contract("GEN-1", "MSK-1")
@pytest.mark.parametrize("dense", [1, 3])
def test_walks_that_are_stopped_at_every_turn_find_the_same(monkeypatch: pytest.MonkeyPatch, dense: int) -> None:
    monkeypatch.setattr(walking, "ROOM_DENSE", dense)
    monkeypatch.setattr(walking, "ROOM_LEFT", 1)
    monkeypatch.setattr(walking, "ROOM_PORTALS", 1)
    monkeypatch.setattr(walking, "ROOM_NEEDS", 1)
    engine = NativeEngine(wide_domain.wide_vocabulary())
    for seed in range(SEEDS_A_TEST):
        found = compiled(engine, wide_domain.wide_grammar(seed))
        if found is not None:
            walk_wide(found, prune(wide_domain.wide_grammar(seed)), random.Random(seed))


@pytest.mark.contract("GEN-1", "MSK-1")
@pytest.mark.parametrize("family", ["any", "text before a mark", "optional parts"])
def test_masks_are_those_of_a_plain_scan_where_every_shortcut_is_taken(
    monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    monkeypatch.setattr(automaton, "FEWEST_ALIKE", 1)
    monkeypatch.setattr(listings, "LISTED", 2)
    engine = NativeEngine(wide_domain.wide_vocabulary())
    for seed in range(SEEDS_A_TEST):
        grammar = FAMILIES[family](seed)
        found = compiled(engine, grammar)
        if found is not None:
            walk_wide(found, prune(grammar), random.Random(seed))


def marked(seed: int) -> Grammar:
    """Free text, a mark and counted text: what was read is forgotten, or counts as a mark, or both."""
    rng = random.Random(seed)
    free, other = (Chars(rng.choice([wide_domain.LETTERS, wide_domain.DIRECT])) for _ in range(2))
    mark = rng.choice([Literal(b"a"), Literal(b"ab"), Chars(CharSet.from_chars("ab")), Chars(CharSet.from_chars("é"))])
    minimum = rng.randint(0, 5)
    counted = Repeat(other, minimum, minimum + rng.choice([0, 0, 1, 3]))
    end = rng.choice([Literal(b""), Literal(b'"'), Chars(CharSet.from_chars("bc"))])
    return Grammar({"root": Sequence((Repeat(free, 0, None), mark, counted, end))}, "root")


def optional_parts(seed: int) -> Grammar:
    """Parts that may be left out, each in the rule before the next one or beside it."""
    rng = random.Random(seed)
    rules: dict[str, Expr] = {}
    for at in range(5):
        inner = rng.choice([Chars(wide_domain.LETTERS), Literal(b"b"), Repeat(Literal(b"a"), 0, 2), Literal(b"")])
        part = Sequence((Literal(rng.choice(wide_domain.STARTS)), inner))
        following = Rule(f"r{at + 1}")
        beside = Repeat(Sequence((Literal(rng.choice(wide_domain.STARTS)), inner)), 0, 1)
        rules[f"r{at}"] = rng.choice(
            [
                Sequence((Repeat(part, 0, 1), following)),
                Sequence((Repeat(part, 0, 1), beside, beside, following)),
                Alternation((Sequence((*part.items, following)), following)),
                Sequence((Repeat(part, 0, 1), Repeat(Chars(wide_domain.DIRECT), 0, 1), following)),
            ]
        )
    rules["r5"] = rng.choice([Literal(b""), Literal(b'"'), Repeat(Literal(b"c"), 0, 1), Chars(wide_domain.LETTERS)])
    return Grammar(rules, "r0")


FAMILIES = {"any": wide_domain.wide_grammar, "text before a mark": marked, "optional parts": optional_parts}


def walk_wide(found: NativeGrammar, grammar: Grammar, rng: random.Random) -> None:
    """Walk at random; now and then the grammar starts over and the matcher forgets."""
    matcher, recogniser, prefix = found.matcher(), Recogniser(grammar), b""
    for _ in range(10):
        expected = scanned(recogniser, prefix, wide_domain.WORDS, {wide_domain.EOS})
        assert legal(matcher, wide_domain.NUM_TOKENS) == expected
        for token in range(wide_domain.NUM_TOKENS):
            assert matcher.accept(token) == (token in expected)
            if token in expected:
                matcher.rollback(1)
        ordinary = sorted(expected - {wide_domain.EOS})
        if not ordinary:
            return
        token = rng.choice(ordinary)
        assert matcher.accept(token)
        prefix += wide_domain.WORDS[token]
        if rng.random() < 0.2:
            found.start_over()
        if rng.random() < 0.5:
            matcher.forget()


@pytest.mark.contract("SES-3", "SES-4")
@MANY
@given(grammars(), st.randoms(use_true_random=False))
def test_rolled_back_matcher_is_as_it_was(native: NativeEngine, grammar: Grammar, rng: object) -> None:
    found = compiled(native, grammar)
    assume(found is not None)
    assert found is not None
    matcher = found.matcher()
    masks = [legal(matcher, narrow_domain.NUM_TOKENS)]
    while len(masks) < 6 and masks[-1]:
        matcher.accept(rng.choice(sorted(masks[-1])))  # type: ignore[attr-defined]
        masks.append(legal(matcher, narrow_domain.NUM_TOKENS))
    for expected in masks[-2::-1]:
        matcher.rollback(1)
        assert legal(matcher, narrow_domain.NUM_TOKENS) == expected


@pytest.mark.contract("SES-3")
@MANY
@given(grammars(), st.lists(st.sampled_from(narrow_domain.WORDS), max_size=6).map(b"".join))
def test_text_is_accepted_whole_or_up_to_its_first_wrong_byte(
    native: NativeEngine, grammar: Grammar, text: bytes
) -> None:
    found = compiled(native, grammar)
    assume(found is not None)
    assert found is not None
    matcher, recogniser = found.matcher(), Recogniser(prune(grammar))
    before = legal(matcher, narrow_domain.NUM_TOKENS)
    longest = next(size for size in range(len(text), -1, -1) if recogniser.is_prefix(text[:size]))
    assert matcher.accept_bytes(text) == longest
    if longest < len(text):
        assert legal(matcher, narrow_domain.NUM_TOKENS) == before
