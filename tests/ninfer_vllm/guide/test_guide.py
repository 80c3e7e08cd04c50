"""Greedy choice, distances and finishing inside a budget."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ninfer_vllm import OutputConstraint
from ninfer_vllm.guide import DEAD, ENDED, Guide, plain_vocabulary
from ninfer_vllm.languages.choice import lower_choice
from ninfer_vllm.vocabulary import Vocabulary
from tests.support.grammars import word_vocabulary
from tests.support.vocabularies import byte_vocabulary

A, B, AB, END, SPECIAL = range(5)
LETTERS = plain_vocabulary([b"a", b"b", b"ab", b"", b""], [END])


def _guide(source: str, vocabulary: Vocabulary = LETTERS) -> Guide:
    return Guide.of(OutputConstraint.regex(source), vocabulary)


@pytest.mark.contract("GDE-4")
def test_greedy_takes_the_highest_legal_logit_and_the_smallest_id_among_equals() -> None:
    guide = _guide("[ab]+")
    assert guide.greedy(0, [0.0, 2.0, 1.0, 9.0, 9.0]) == B
    assert guide.greedy(0, [1.0, 1.0, 1.0, 9.0, 9.0]) == A
    assert guide.greedy(0, [0.0, 1.0, 1.0, 0.0, 0.0]) == B
    assert guide.greedy(guide.step(0, A), [0.0, 1.0, 1.0, 2.0, 9.0]) == END
    assert guide.greedy(0, np.array([-5, -3, -4, 0, 0], np.float16)) == B


@pytest.mark.contract("GDE-4")
def test_greedy_is_the_plain_maximum_over_the_legal_tokens() -> None:
    vocabulary = word_vocabulary()
    guide = _guide("(?:ab|a?c){1,3}é?", vocabulary)
    rng = np.random.default_rng(10)
    for state in range(len(guide)):
        for _ in range(20):
            logits = rng.integers(-2, 3, len(vocabulary)).astype(np.float32)
            logits[rng.random(len(vocabulary)) < 0.3] = -np.inf
            legal = [token for token, _ in guide.allowed(state) if logits[token] > -np.inf]
            expected = min(legal, key=lambda token: (-logits[token], token)) if legal else None
            assert guide.greedy(state, logits) == expected


@pytest.mark.contract("GDE-4")
def test_greedy_reads_its_input_only() -> None:
    logits = np.array([1.0, -np.inf, 3.0, 0.0, 7.0])
    before = logits.copy()
    logits.flags.writeable = False
    assert _guide("[ab]+").greedy(0, logits) == AB
    assert (logits == before).all()


@pytest.mark.contract("GDE-4")
@pytest.mark.parametrize(
    ("logits", "fault"),
    [
        ([0.0, 0.0, 0.0, np.nan, 0.0], "token 3 is nan"),
        ([0.0, 0.0, 0.0, 0.0, np.inf], "token 4 is inf"),
        ([0.0] * 4, r"expected 5 logits in one dimension, got shape \(4,\)"),
        ([[0.0] * 5], r"got shape \(1, 5\)"),
        (0.0, r"got shape \(\)"),
    ],
)
def test_greedy_refuses_wrong_logits_even_of_illegal_tokens(logits: object, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        _guide("a").greedy(0, logits)  # type: ignore[arg-type]


@pytest.mark.contract("GDE-4")
def test_no_candidate_is_none_and_not_the_end() -> None:
    guide = _guide("a*")
    off = -np.inf
    assert guide.greedy(0, [off, 5.0, 5.0, off, 5.0]) is None
    assert guide.greedy(0, [off, 5.0, 5.0, 1.0, 5.0]) == END
    assert guide.greedy(ENDED, [1.0] * 5) is guide.greedy(DEAD, [1.0] * 5) is None
    assert _guide("a").greedy(0, [off, 1.0, 1.0, 1.0, 1.0], finish=True) is None


@pytest.mark.contract("GDE-4")
def test_finish_keeps_what_lowers_the_distance_and_ends_a_complete_text() -> None:
    guide = _guide("b*ab?")
    loops = [0.0, 9.0, 8.0, 9.0, 9.0]
    assert guide.greedy(0, loops) == B
    assert guide.greedy(0, loops, finish=True) == AB
    complete = guide.step(0, A)
    assert guide.greedy(complete, loops, finish=True) == END
    assert [token for token, _ in guide.finishing(0)] == [A, AB]
    assert [token for token, _ in guide.finishing(complete)] == [END]
    assert len(guide.finishing(ENDED)) == len(guide.finishing(DEAD)) == 0


@pytest.mark.contract("GDE-2", "GDE-4")
def test_finishing_is_what_strictly_lowers_the_distance_in_every_state() -> None:
    guide = _guide("(?:ab|a?c){1,3}é?", word_vocabulary())
    for state in range(len(guide)):
        distance = guide.distance(state)
        lower = [
            token for token, target in guide.allowed(state) if target != ENDED and guide.distance(target) < distance
        ]  # type: ignore[operator]
        ends = [token for token, target in guide.allowed(state) if target == ENDED]
        assert guide.finishing(state).tokens.tolist() == (ends if guide.is_complete(state) else lower)
        assert guide.is_complete(state) == (distance == 0) == bool(ends)


@pytest.mark.contract("GDE-2")
def test_distance_is_that_of_the_shortest_completion() -> None:
    guide = Guide(lower_choice(["aab", "b"]), LETTERS)
    assert guide.distance(guide.start) == 1
    assert guide.distance(guide.step(0, A)) == 2
    assert guide.distance(guide.step(0, B)) == 0
    assert guide.distance(ENDED) == 0
    assert guide.distance(DEAD) is None
    assert guide.is_complete(ENDED)
    assert not guide.is_complete(DEAD)


@pytest.mark.contract("GDE-2", "GDE-7")
def test_tokens_to_end_spell_the_first_shortest_text_with_the_fewest_tokens() -> None:
    vocabulary = word_vocabulary()
    guide = _guide("(?:ab|cab|éé|abcabc){2,4}€", vocabulary)
    fewest = {}
    for state in sorted(range(len(guide)), key=guide.automaton.distance.__getitem__):
        path, at = b"", state
        while not guide.is_complete(at):
            byte = min(
                byte
                for byte, target in enumerate(guide.automaton.table[at].tolist())
                if target >= 0 and guide.distance(target) == guide.distance(at) - 1  # type: ignore[operator]
            )
            path, at = path + bytes([byte]), int(guide.automaton.table[at, byte])
        fewest[state] = _fewest_tokens(path, vocabulary)
        assert guide.tokens_to_end(state) == (None if fewest[state] is None else fewest[state] + 1)
    assert {None, 0, 1, 2} < set(fewest.values())
    assert guide.tokens_to_end(ENDED) == 0
    assert guide.tokens_to_end(DEAD) is None


UNSPELLED = 10**6


def _fewest_tokens(data: bytes, vocabulary: Vocabulary) -> int | None:
    spellings = {vocabulary.spellings[token] for token in range(len(vocabulary) - 4)}
    best = [0]
    for end in range(1, len(data) + 1):
        best.append(min((best[start] + 1 for start in range(end) if data[start:end] in spellings), default=UNSPELLED))
    return best[-1] if best[-1] < UNSPELLED else None


@pytest.mark.contract("GDE-7")
def test_longest_token_first_is_not_taken_for_the_fewest() -> None:
    # abcde is a, b, cde and the end: behind abc nothing goes on.
    stuck = plain_vocabulary([b"a", b"abc", b"b", b"cde", b""], [4])
    assert Guide(lower_choice(["abcde"]), stuck).tokens_to_end(0) == 4
    # abcdef is ab, cdef and the end, not abc, d, e, f and the end.
    longer = plain_vocabulary([b"abc", b"ab", b"cdef", b"d", b"e", b"f", b""], [6])
    assert Guide(lower_choice(["abcdef"]), longer).tokens_to_end(0) == 3


@pytest.mark.contract("GDE-7")
def test_every_budget_from_the_shortest_on_is_kept_whatever_is_chosen() -> None:
    guide = Guide.of(
        OutputConstraint.json_schema({"type": "array", "items": {"type": "string"}, "minItems": 2}), byte_vocabulary()
    )
    least = guide.tokens_to_end(guide.start)
    assert least is not None
    rng = random.Random(11)
    lengths = set()
    for budget in range(least, least + 12):
        for _ in range(30):
            state, left = guide.start, budget
            while state != ENDED:
                candidates = guide.within(state, left)
                assert len(candidates)
                _, state = rng.choice(list(candidates))
                left -= 1
            assert left >= 0
            lengths.add(budget - left)
    assert len(lengths) > 5
    assert len(guide.within(guide.start, least - 1)) == 0
    assert guide.greedy(0, np.zeros(len(guide.vocabulary)), budget=least - 1) is None


@pytest.mark.contract("GDE-7")
def test_budget_without_an_end_token_or_a_spelling_is_never_enough() -> None:
    endless = _guide("a", plain_vocabulary([b"a"], []))
    assert endless.tokens_to_end(0) is None
    assert len(endless.within(0, 10)) == 0
    unspelled = _guide("ac?b", LETTERS)
    assert unspelled.tokens_to_end(0) == 2
    assert _guide("c", LETTERS).tokens_to_end(0) is None
    only_empty = _guide("", LETTERS)
    assert list(only_empty.within(0, 1)) == [(END, ENDED)]
    assert only_empty.tokens_to_end(0) == 1


@pytest.mark.contract("GDE-3")
def test_number_that_is_no_state_is_an_error() -> None:
    guide = _guide("a")
    for state in (len(guide), -3):
        for ask in (guide.allowed, guide.mask, guide.distance, lambda state: guide.step(state, A)):
            with pytest.raises(ValueError, match="is no state of this guide"):
                ask(state)
