"""Both engines give the same masks on every grammar both run."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.engines.protocol import Matcher
from ninfer_vllm.engines.xgrammar import XgrammarEngine
from ninfer_vllm.errors import ConstraintError, UnsupportedByEngine
from ninfer_vllm.grammar.checks import productive_rules, prune
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.testing.domain import Domain, domain_of
from tests.support.cases import open_cases
from tests.support.grammars import NUM_TOKENS, grammars

SCHEMAS = Path(__file__).resolve().parents[4] / ".." / "shared" / "data" / "real-schemas.jsonl.gz"
FEWER = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NUM_SCHEMAS = 40


@pytest.mark.contract("GEN-1", "MSK-1")
@FEWER
@given(grammars(), st.randoms(use_true_random=False))
def test_masks_agree_on_random_grammars(
    native: NativeEngine, words: XgrammarEngine, grammar: Grammar, rng: random.Random
) -> None:
    assume("r0" in productive_rules(grammar))
    try:
        ours = native.compile(grammar).matcher()
        theirs = words.compile(grammar).matcher()
    except (UnsupportedByEngine, ConstraintError):
        assume(False)
    for _ in range(6):
        row = agreed(ours, theirs, (NUM_TOKENS + 31) // 32)
        legal = [token for token in range(NUM_TOKENS) if row[token // 32] >> (token % 32) & 1]
        if not legal:
            break
        token = rng.choice(legal)
        assert ours.accept(token)
        assert theirs.accept(token)


@pytest.fixture(scope="module")
def qwen() -> Domain:
    return domain_of("embedded-qwen")


@pytest.fixture(scope="module")
def engines(qwen: Domain) -> Iterator[tuple[NativeEngine, XgrammarEngine]]:
    theirs = XgrammarEngine(qwen.vocabulary)
    yield NativeEngine(qwen.vocabulary), theirs
    theirs.close()


@pytest.mark.slow
@pytest.mark.contract("GEN-1", "MSK-1")
def test_masks_agree_on_real_schemas(engines: tuple[NativeEngine, XgrammarEngine], qwen: Domain) -> None:
    if not SCHEMAS.is_file():
        pytest.skip("the real schemas are not there")
    with gzip.open(SCHEMAS, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    compared = 0
    for row in random.Random(7).sample(rows, len(rows)):
        try:
            grammar = prune(lower(OutputConstraint.json_schema(row["schema"])))
            theirs = engines[1].compile(grammar)
        except ConstraintError:
            continue
        text = sample(grammar, random.Random(compared), 150)
        walk(engines[0].compile(grammar).matcher(), theirs.matcher(), text, qwen)
        compared += 1
        if compared == NUM_SCHEMAS:
            return
    assert compared


@pytest.mark.slow
@pytest.mark.contract("GEN-1", "MSK-1")
@pytest.mark.parametrize("kind", ["gbnf", "regex", "choice"])
def test_masks_agree_on_the_open_cases(engines: tuple[NativeEngine, XgrammarEngine], qwen: Domain, kind: str) -> None:
    for parameters in open_cases(kind):
        (case,) = parameters.values
        if case is None:
            pytest.skip("the open cases are not there")
        try:
            grammar = prune(lower(constraint_of(case), qwen.vocabulary))
            ours, theirs = engines[0].compile(grammar), engines[1].compile(grammar)
        except ConstraintError:
            continue
        for text in case["accept"]:
            walk(ours.matcher(), theirs.matcher(), text.encode(), qwen)


def constraint_of(case: dict[str, dict[str, object]]) -> OutputConstraint:
    ((kind, source),) = case["constraint"].items()
    if kind == "choice":
        return OutputConstraint.choice(list(source))  # type: ignore[call-overload]
    return OutputConstraint.grammar(str(source)) if kind == "grammar" else OutputConstraint.regex(str(source))


def walk(ours: Matcher, theirs: Matcher, text: bytes, domain: Domain) -> None:
    """Along the tokens of a text, to where it is no prefix any more."""
    for token in domain.tokenizer.encode(text.decode(), add_special_tokens=False):
        agreed(ours, theirs, domain.vocabulary.words)
        accepted = ours.accept(token)
        assert theirs.accept(token) == accepted
        if not accepted:
            return
    agreed(ours, theirs, domain.vocabulary.words)
    assert ours.complete == theirs.complete


def agreed(ours: Matcher, theirs: Matcher, words: int) -> np.ndarray:
    mine, other = np.full(words, -1, np.int32), np.full(words, -1, np.int32)
    assert ours.fill(mine) == theirs.fill(other)
    assert np.array_equal(mine, other)
    return mine
