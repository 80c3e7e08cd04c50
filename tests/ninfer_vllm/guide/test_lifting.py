"""The legal tokens found by walking the trie are those found by stepping every token alone."""

from __future__ import annotations

import random
import threading

import pytest

from ninfer_vllm import OutputConstraint
from ninfer_vllm.guide import DEAD, ENDED, Guide, plain_vocabulary
from ninfer_vllm.languages.choice import lower_choice
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.vocabulary import TokenClass, Vocabulary
from tests.support.grammars import word_vocabulary
from tests.support.oracles.recogniser import Recogniser
from tests.support.vocabularies import byte_vocabulary

CONSTRAINTS = [
    OutputConstraint.regex("(?:ab|a?c){1,3}é?"),
    OutputConstraint.regex("[^]{0,3}"),
    OutputConstraint.choice(["abc", "ab", "c", "é", "ééa", ""]),
    OutputConstraint.grammar('root ::= "a" root | "bc" | [é€]+'),
    OutputConstraint.json_schema({"type": "string", "maxLength": 2}),
    OutputConstraint.json_schema({"enum": ["a", 1, [True, None], {"k": "é"}]}),
]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["new", "old"]}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def _scanned(guide: Guide, state: int) -> dict[int, int]:
    """Every token alone, by its bytes; nothing of the guide but its table of bytes is used."""
    found = {}
    for token, spelling in enumerate(guide.vocabulary.spellings):
        kind = guide.vocabulary.classes[token]
        if kind == TokenClass.EOS and guide.automaton.accepting[state]:
            found[token] = ENDED
        if kind == TokenClass.ORDINARY and spelling:
            target = guide.automaton.run(spelling, state)
            if target != DEAD:
                found[token] = target
    return found


@pytest.mark.contract("GDE-3", "GDE-8", "TOK-3")
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.kind)
@pytest.mark.parametrize("vocabulary", [byte_vocabulary(), word_vocabulary()], ids=["bytes", "words"])
def test_every_state_allows_what_a_plain_scan_finds(constraint: OutputConstraint, vocabulary: Vocabulary) -> None:
    guide = Guide.of(constraint, vocabulary)
    for state in range(len(guide)):
        allowed = guide.allowed(state)
        expected = _scanned(guide, state)
        assert list(allowed) == sorted(expected.items())
        for token in range(-1, len(vocabulary) + 1):
            assert guide.step(state, token) == expected.get(token, DEAD)
            assert (token in allowed) == (token in expected)


@pytest.mark.contract("GDE-3", "GDE-8", "PRF-4")
def test_sampled_states_of_a_real_vocabulary_allow_what_a_plain_scan_finds(qwen: Vocabulary) -> None:
    guide = Guide.of(OutputConstraint.json_schema(SCHEMA, whitespace="flexible"), qwen)
    rng = random.Random(9)
    # One state that allows most of the vocabulary is always among them.
    inside_string = guide.automaton.run(b'{"name":"x')
    for state in [0, inside_string, *rng.sample(range(len(guide)), 6)]:
        assert list(guide.allowed(state)) == sorted(_scanned(guide, state).items())
    assert len(guide.allowed(inside_string)) > 100_000


@pytest.mark.contract("GDE-8")
def test_masks_of_finite_languages_are_the_tokens_with_a_completion() -> None:
    vocabulary = word_vocabulary()
    for constraint in (
        OutputConstraint.regex("(?:ab|a?c){1,3}é?|€"),
        OutputConstraint.choice(["abc", "ab", "c", "é", "ééa", "€"]),
        OutputConstraint.regex("a?b?c?a?b?c?"),
    ):
        guide = Guide.of(constraint, vocabulary)
        language = _all_texts(guide)
        recogniser = Recogniser(lower(constraint))
        assert all(recogniser.accepts(one) for one in language)
        prefixes = {one[:size] for one in language for size in range(len(one) + 1)}
        for prefix in prefixes:
            state = guide.automaton.run(prefix)
            legal = {
                token
                for token, spelling in enumerate(vocabulary.spellings)
                if vocabulary.classes[token] == TokenClass.ORDINARY and spelling and prefix + spelling in prefixes
            }
            if prefix in language:
                legal.update(vocabulary.ids(TokenClass.EOS))
            assert guide.allowed(state).tokens.tolist() == sorted(legal)


def _all_texts(guide: Guide) -> set[bytes]:
    """The whole language, by following every byte."""
    found, todo = set(), [(b"", 0)]
    while todo:
        prefix, state = todo.pop()
        if guide.automaton.accepting[state]:
            found.add(prefix)
        for byte, target in enumerate(guide.automaton.table[state].tolist()):
            if target != DEAD:
                todo.append((prefix + bytes([byte]), target))
    return found


@pytest.mark.contract("GDE-3", "TOK-2", "TOK-3")
def test_end_is_legal_only_in_accepting_states_and_empty_tokens_never() -> None:
    vocabulary = plain_vocabulary([b"a", b"", b"b", b""], [3])
    guide = Guide(lower_choice(["a", "ab"]), vocabulary)
    assert list(guide.allowed(guide.start)) == [(0, guide.step(guide.start, 0))]
    behind = guide.step(guide.start, 0)
    assert [token for token, _ in guide.allowed(behind)] == [2, 3]
    assert guide.step(guide.start, 3) == guide.step(behind, 1) == DEAD
    assert guide.step(behind, 3) == ENDED
    for state in (DEAD, ENDED):
        assert len(guide.allowed(state)) == 0
        assert guide.step(state, 0) == guide.step(state, 3) == DEAD


@pytest.mark.contract("GDE-3", "SEC-2")
def test_kept_lists_stay_within_their_budget_and_are_found_again() -> None:
    guide = Guide(lower(OutputConstraint.regex("[^]{0,40}")), byte_vocabulary(), tokens_bytes=10_000)
    before = [list(guide.allowed(state)) for state in range(len(guide))]
    lifting = guide._lifting
    assert sum(found.nbytes for found in lifting._found.values()) == lifting._used <= 10_000
    assert [list(guide.allowed(state)) for state in range(len(guide))] == before
    last = guide.allowed(len(guide) - 1)
    assert guide.allowed(len(guide) - 1) is last
    with pytest.raises(ValueError, match="read-only"):
        last.tokens[0] = 1


@pytest.mark.contract("GDE-3", "GDE-10")
def test_threads_share_a_guide() -> None:
    guide = Guide(lower(OutputConstraint.regex("[^]{0,20}")), byte_vocabulary(), tokens_bytes=4_000, masks_bytes=400)
    expected = [_scanned(guide, state) for state in range(len(guide))]
    wrong = []

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(300):
            state = rng.randrange(len(guide))
            if dict(guide.allowed(state)) != expected[state] or not guide.mask(state).any():
                wrong.append(state)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
