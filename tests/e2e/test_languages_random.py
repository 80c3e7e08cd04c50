"""Every language on a random model that resists it, in the host's default process layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine import SELECTED, Answer, Ask, Engine, Sample
from tests.support.inspection import spelling_table
from tests.support.kinds import Kind, all_kinds

pytestmark = pytest.mark.engine

KINDS = all_kinds()
GENERATIONS = 200
"""A language; half of them greedy."""
MAX_TOKENS = 72
CLOSING_MARKS = (1, 92, 60)
"""Qwen's tokens for a quotation mark, a closing brace and a closing bracket."""


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    # Full precision, so that a seeded row draws the same beside whichever rows are in its batch.
    with Engine(tiny, max_num_seqs=50, dtype="float32", **SELECTED) as running:
        yield running


@pytest.fixture(scope="module")
def table(engine: Engine) -> dict[int, bytes]:
    """The bytes of every ordinary token."""
    spelled: dict[int, bytes] = engine.call(spelling_table)
    return spelled


def asks(kind: Kind, count: int, temperature: float, **sampling: Any) -> list[Ask]:
    settings = {"temperature": temperature, "max_tokens": MAX_TOKENS, **sampling}
    if kind.constraint.kind == "json_object" and "logit_bias" not in sampling:
        # Nothing bounds the length of an object: only a liking for its closing marks ends it in time.
        settings["logit_bias"] = dict.fromkeys(CLOSING_MARKS, 11.0)
    return [Ask(f"Request {number}:", kind.constraint, {**settings, "seed": number}) for number in range(count)]


def judge(table: dict[int, bytes], kind: Kind, sample: Sample) -> None:
    """A finished sample is a member; one that ran out of tokens is a prefix and says so (GEN-3, END-2)."""
    record = sample.constraint
    assert record is not None
    assert sample.error is None
    assert record.kind == kind.constraint.kind
    if sample.finish_reason == "stop":
        assert kind.is_member(sample.text), sample.text
        assert (record.complete, record.terminated, record.branch) == (True, True, "content")
        return
    assert sample.finish_reason == "length"
    assert len(sample.token_ids) == MAX_TOKENS
    data = b"".join(table[token] for token in sample.token_ids)
    assert kind.is_prefix(data), data
    assert record.terminated is False
    assert record.complete == is_member(kind, data)


def is_member(kind: Kind, data: bytes) -> bool:
    try:
        return kind.is_member(data.decode())
    except ValueError:
        return False


@pytest.mark.contract("GEN-1", "GEN-3", "END-1", "END-2", "SMP-1", "OBS-1")
@pytest.mark.parametrize("language", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "sampled"])
def test_every_output_belongs_to_its_language(
    engine: Engine, table: dict[int, bytes], language: str, temperature: float
) -> None:
    kinds = KINDS[language]
    share = -(-GENERATIONS // 2 // len(kinds))
    batch = [(kind, ask) for kind in kinds for ask in asks(kind, share, temperature)]
    answers = engine.generate([ask for _, ask in batch])
    for (kind, _), answer in zip(batch, answers, strict=True):
        judge(table, kind, answer.only)
    finished = sum(answer.only.finish_reason == "stop" for answer in answers)
    assert finished >= len(answers) // 4, "the bounds are meant to let many outputs finish"


@pytest.mark.contract("END-2", "GEN-2", "GEN-3")
def test_outputs_cut_by_their_budget_are_prefixes_and_say_so(engine: Engine, table: dict[int, bytes]) -> None:
    kinds = [kind for group in KINDS.values() for kind in group]
    batch = [Ask("Short:", kind.constraint, {"temperature": 1.0, "seed": 5, "max_tokens": 3}) for kind in kinds]
    num_cut = 0
    for kind, answer in zip(kinds, engine.generate(batch), strict=True):
        sample = answer.only
        record = sample.constraint
        assert record is not None
        if sample.finish_reason == "length":
            data = b"".join(table[token] for token in sample.token_ids)
            assert kind.is_prefix(data)
            assert record.complete == is_member(kind, data)
            assert not record.terminated
            num_cut += 1
    assert num_cut > len(kinds) // 2


@pytest.mark.contract("END-2", "END-3")
def test_content_that_is_complete_at_the_limit_is_complete_and_ended_by_length(engine: Engine) -> None:
    (kind,) = KINDS["choice"]
    # The token of "a" is forced: "aa" and the other texts are longer than one token or banned.
    ask = Ask("One:", kind.constraint, {"temperature": 0.0, "max_tokens": 1, "logit_bias": {64: 100.0}})
    sample = engine.generate([ask])[0].only
    assert (sample.text, sample.finish_reason) == ("a", "length")
    assert sample.constraint is not None
    assert (sample.constraint.complete, sample.constraint.terminated) == (True, False)


SETTINGS: dict[str, dict[str, Any]] = {
    "n": {"n": 3},
    "top_k": {"top_k": 5},
    "top_p": {"top_p": 0.3},
    "min_p": {"min_p": 0.2},
    "penalties": {"presence_penalty": 1.5, "frequency_penalty": 1.5, "repetition_penalty": 1.3},
    "logit_bias": {"logit_bias": {0: 50.0, 198: 50.0, 90: -20.0}},
    "allowed_token_ids": {"allowed_token_ids": list(range(0, 151_936))},
    "bad_words": {"bad_words": ["a", "1"]},
    "logprobs": {"logprobs": 4},
}


@pytest.mark.contract("SMP-2", "SMP-3", "REQ-7", "REQ-8")
@pytest.mark.parametrize("name", SETTINGS)
def test_sampling_parameters_stay_usable(engine: Engine, table: dict[int, bytes], name: str) -> None:
    kinds = [group[0] for group in KINDS.values()]
    batch = [ask for kind in kinds for ask in asks(kind, 4, 1.0, **SETTINGS[name])]
    answers = engine.generate(batch)
    for at, answer in enumerate(answers):
        assert len(answer.samples) == SETTINGS[name].get("n", 1)
        for sample in answer.samples:
            judge(table, kinds[at // 4], sample)


@pytest.mark.contract("REQ-7")
def test_min_tokens_holds_back_the_end_and_yields_where_only_the_end_is_legal(
    engine: Engine, table: dict[int, bytes]
) -> None:
    free, forced = KINDS["regex"][2], KINDS["choice"][0]
    batch = [*asks(free, 10, 1.0, min_tokens=20), *asks(forced, 10, 1.0, min_tokens=20)]
    answers = engine.generate(batch)
    for answer in answers[:10]:
        judge(table, free, answer.only)
        assert len(answer.only.token_ids) > 20
    for answer in answers[10:]:
        judge(table, forced, answer.only)
        assert answer.only.finish_reason == "stop"


@pytest.mark.contract("SMP-5")
def test_samples_of_one_request_differ_and_seeds_repeat_them(engine: Engine) -> None:
    kind = KINDS["regex"][1]
    batch = [Ask("Name:", kind.constraint, {"temperature": 1.0, "seed": 11, "n": 6, "max_tokens": MAX_TOKENS})]
    first, second = engine.generate(batch)[0], engine.generate(batch)[0]
    assert texts(first) == texts(second)
    assert len(set(texts(first))) > 1


@pytest.mark.contract("SMP-1")
def test_requested_log_probabilities_hold_the_sampled_token(engine: Engine) -> None:
    kind = KINDS["json_schema"][0]
    for answer in engine.generate(asks(kind, 4, 1.0, logprobs=2)):
        sample = answer.only
        assert sample.logprobs is not None
        assert len(sample.logprobs) == len(sample.token_ids)
        for token, scores in zip(sample.token_ids, sample.logprobs, strict=True):
            assert token in scores
            assert len(scores) in (2, 3)


def texts(answer: Answer) -> list[str]:
    return [sample.text for sample in answer.samples]
