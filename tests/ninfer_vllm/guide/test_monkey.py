"""Sampling without a model: uniform, sure to finish, and what it draws is valid by other judges."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import islice

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm import OutputConstraint
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.guide import ENDED, Guide, plain_vocabulary
from ninfer_vllm.guide.guide import CAP_EXTRA, CAP_FACTOR
from ninfer_vllm.languages.choice import lower_choice
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.vocabulary import Vocabulary
from tests.support.collections import collection
from tests.support.json_schemas import schemas
from tests.support.oracles.recogniser import Recogniser
from tests.support.vocabularies import byte_vocabulary

VOCABULARY = byte_vocabulary()
MAX_GUIDES = 16
"""Public schemas that are sampled: enough to meet most keywords."""
GRAMMARS = [
    'root ::= "a" root | "b"',
    'root ::= [a-c]{2,5} ("," [0-9]+)* "."?',
    'root ::= word (" " word)*\nword ::= [a-zé海]+ | "\\"" [^"\\n]* "\\""',
    'root ::= sign? digits frac?\nsign ::= "-"\ndigits ::= "0" | [1-9] [0-9]*\nfrac ::= "." [0-9]{1,3}',
]
SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1, "maximum": 999},
        "kind": {"enum": ["a", 'b"c', None]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
        "price": {"type": "number", "minimum": 0, "exclusiveMaximum": 10},
    },
    "required": ["id", "kind"],
    "additionalProperties": False,
}


@pytest.mark.contract("GDE-5", "GDE-8")
@pytest.mark.parametrize("max_tokens", [0, 3, 40])
def test_stepping_by_hand_draws_what_monkey_draws(max_tokens: int) -> None:
    guide = Guide.of(OutputConstraint.json_schema(SCHEMA, whitespace="flexible"), VOCABULARY)
    for seed in range(20):
        drawn = guide.monkey(random.Random(seed), max_tokens)
        rng, state, tokens = random.Random(seed), guide.start, []
        while state != ENDED:
            token = guide.monkey_step(state, rng, finish=len(tokens) >= max_tokens)
            assert token is not None
            tokens.append(token)
            state = guide.step(state, token)
        assert drawn.tokens == tuple(tokens)
        assert drawn.finished
        assert drawn.text == b"".join(VOCABULARY.spellings[token] for token in tokens[:-1])


@pytest.mark.contract("GDE-5")
def test_free_steps_are_uniform_and_the_end_is_one_of_them() -> None:
    guide = Guide.of(OutputConstraint.regex("[ab]*"), plain_vocabulary([b"a", b"b", b"ab", b""], [3]))
    rng = random.Random(12)
    counts = Counter(guide.monkey_step(guide.start, rng, finish=False) for _ in range(8_000))
    assert set(counts) == {0, 1, 2, 3}
    assert all(1_800 < count < 2_200 for count in counts.values())


@pytest.mark.contract("GDE-5")
def test_steps_beyond_the_budget_only_come_nearer_and_end_at_once() -> None:
    guide = Guide.of(OutputConstraint.json_schema(SCHEMA, whitespace="flexible"), VOCABULARY)
    rng = random.Random(13)
    for _ in range(60):
        state, budget, drawn = guide.start, rng.randrange(30), 0
        while state != ENDED:
            complete, before = guide.is_complete(state), guide.distance(state)
            token = guide.monkey_step(state, rng, finish=drawn >= budget)
            assert token is not None
            state = guide.step(state, token)
            if drawn >= budget:
                assert (state == ENDED) if complete else guide.distance(state) < before  # type: ignore[operator]
            drawn += 1


@pytest.mark.contract("GDE-5", "GDE-7")
def test_budget_is_where_finishing_starts_and_no_limit() -> None:
    guide = Guide(lower_choice(["a" * 50]), VOCABULARY)
    sample = guide.monkey(random.Random(0), 0)
    assert sample.finished
    assert sample.text == b"a" * 50


@pytest.mark.contract("GDE-5", "GDE-7")
def test_hard_cap_stops_an_unfinished_text() -> None:
    vocabulary = plain_vocabulary([b"a", b""], [1])
    guide = Guide(lower_choice(["a" * 500]), vocabulary)
    sample = guide.monkey(random.Random(0), 10)
    assert not sample.finished
    assert len(sample.tokens) == CAP_FACTOR * 10 + CAP_EXTRA
    assert sample.text == b"a" * (CAP_FACTOR * 10 + CAP_EXTRA)
    assert Guide(lower_choice(["a" * 103]), vocabulary).monkey(random.Random(0), 10).finished
    assert not Guide(lower_choice(["a" * 104]), vocabulary).monkey(random.Random(0), 10).finished


@pytest.mark.contract("GDE-5", "GDE-7")
def test_sparse_vocabulary_stalls_and_says_so() -> None:
    guide = Guide(lower_choice(["ab"]), plain_vocabulary([b"a", b""], [1]))
    sample = guide.monkey(random.Random(0), 10)
    assert (sample.finished, sample.text, sample.tokens) == (False, b"a", (0,))
    # The only token that goes on leads around: it lowers no distance, so finishing has no way.
    around = Guide.of(OutputConstraint.regex("(?:aa)*b"), plain_vocabulary([b"aa", b""], [1]))
    assert around.monkey_step(around.start, random.Random(0), finish=True) is None
    assert not around.monkey(random.Random(0), 5).finished
    endless = Guide(lower_choice(["a"]), plain_vocabulary([b"a"], []))
    assert not endless.monkey(random.Random(0), 5).finished


@pytest.mark.contract("GDE-7")
def test_vocabulary_of_all_bytes_finishes_from_every_state() -> None:
    for constraint in (
        OutputConstraint.json_schema(SCHEMA, whitespace="flexible"),
        *map(OutputConstraint.grammar, GRAMMARS),
        OutputConstraint.regex("[^]{3,9}(?:é|😀)+"),
    ):
        guide = Guide.of(constraint, VOCABULARY)
        rng = random.Random(14)
        for start in range(len(guide)):
            state, steps = start, 0
            while state != ENDED:
                token = guide.monkey_step(state, rng, finish=True)
                assert token is not None
                state, steps = guide.step(state, token), steps + 1
            assert steps <= int(guide.automaton.distance[start]) + 1


@pytest.mark.contract("GDE-8")
@settings(max_examples=150, deadline=None)
@given(schemas(), st.integers(0, 2**32))
def test_samples_of_random_schemas_are_valid_by_an_independent_validator(schema: dict[str, object], seed: int) -> None:
    whitespace = "flexible" if seed % 2 else "compact"
    try:
        guide = Guide.of(OutputConstraint.json_schema(schema, whitespace=whitespace), VOCABULARY)
    except ConstraintError:
        return
    rng = random.Random(seed)
    for _ in range(5):
        sample = guide.monkey(rng, rng.randrange(40))
        assert sample.finished
        jsonschema.Draft202012Validator(schema).validate(json.loads(sample.text))


@pytest.mark.contract("GDE-8")
@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
def test_samples_of_a_real_schema_are_valid_by_an_independent_validator(qwen: Vocabulary, whitespace: str) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for vocabulary in (VOCABULARY, qwen):
        guide = Guide.of(OutputConstraint.json_schema(SCHEMA, whitespace=whitespace), vocabulary)  # type: ignore[arg-type]
        rng, seen = random.Random(15), set()
        for _ in range(60):
            sample = guide.monkey(rng, rng.randrange(60))
            assert sample.finished
            validator.validate(json.loads(sample.text))
            seen.add(sample.text)
        assert len(seen) > 40


@pytest.mark.contract("GDE-8")
def test_samples_of_public_schemas_are_valid_by_an_independent_validator() -> None:
    rng = random.Random(18)
    num_guides = 0
    for row in islice(collection("real-schemas"), 0, None, 7):
        constraint = OutputConstraint.json_schema(row["schema"], unknown_keywords="annotation")
        try:
            guide = Guide.of(constraint, VOCABULARY)
        except ConstraintError:
            continue
        num_guides += 1
        validator = jsonschema.Draft202012Validator(row["schema"])
        for _ in range(3):
            sample = guide.monkey(rng, rng.randrange(80))
            if sample.finished:
                validator.validate(json.loads(sample.text))
            assert sample.finished or len(sample.tokens) >= CAP_EXTRA
        if num_guides == MAX_GUIDES:
            break
    assert num_guides == MAX_GUIDES


@pytest.mark.contract("GDE-8")
@pytest.mark.parametrize("source", GRAMMARS)
def test_samples_of_a_grammar_are_accepted_by_its_interpreter(source: str) -> None:
    recogniser = Recogniser(lower(OutputConstraint.grammar(source)))
    guide = Guide.of(OutputConstraint.grammar(source), VOCABULARY)
    rng = random.Random(16)
    for _ in range(60):
        sample = guide.monkey(rng, rng.randrange(20))
        assert sample.finished
        assert recogniser.accepts(sample.text)
        cut = sample.text[:-1]
        assert guide.automaton.accepts(cut) == recogniser.accepts(cut)
