"""Speculative decoding with the host's n-gram proposer: drafts stay as proposed, outputs stay as without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support.drafts import Watched, watching
from tests.support.engine import IN_PROCESS, SELECTED, Answer, Ask, Engine, generate
from tests.support.inspection import state_of
from tests.support.kinds import DATE, LISTS, Person, admits, expression, is_list_text

pytestmark = pytest.mark.engine

# Full precision: a verified batch and a single row give the same greedy choice.
OPTIONS: dict[str, Any] = {"dtype": "float32", "max_model_len": 512, **SELECTED}
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1, "prompt_lookup_max": 3}
GREEDY = {"temperature": 0.0, "max_tokens": 60}

PEOPLE = 'Ann is 7: {"name":"Ann","age":7,"email":null}\nBob is 41: {"name":"Bob","age":41,"email":null}\nAnn is 7:'
DATES = "2024-01-31, 2024-02-31, 2024-03-31, 2024-04-31,"
NESTED = "[1,[2,3]] [1,[2,3]] [1,[2,3]] [1,[2, 3, 4]]"
COUNTING = "one two three four five, one two three four five, one two three"
ASKS = [
    Ask(PEOPLE, OutputConstraint.json_schema(Person), GREEDY),
    Ask(DATES, OutputConstraint.regex(DATE), GREEDY),
    Ask(NESTED, OutputConstraint.grammar(LISTS), GREEDY),
    Ask(COUNTING, OutputConstraint.choice(["four five", "five four", "four six"]), GREEDY),
    Ask(COUNTING, None, {**GREEDY, "max_tokens": 16}),
]


@pytest.fixture(scope="module")
def plain(smollm2: Path) -> list[Answer]:
    """The outputs without speculative decoding."""
    with Engine(smollm2, IN_PROCESS, **OPTIONS) as running:
        return running.generate(ASKS)


@pytest.fixture(scope="module")
def run(smollm2: Path, plain: list[Answer]) -> Iterator[tuple[list[Answer], Watched]]:
    """The outputs with n-gram drafts, and what became of the drafts."""
    with Engine(smollm2, IN_PROCESS, speculative_config=NGRAM, **OPTIONS) as running:
        yield running.call(generate_watched, ASKS)
        assert running.call(state_of).sessions == 0


@pytest.mark.contract("SPC-3", "SPC-8")
def test_drafts_are_verified_as_they_were_proposed(run: tuple[list[Answer], Watched]) -> None:
    _, seen = run
    assert seen.scheduled
    unmatched = list(seen.proposed)
    for drafts in seen.scheduled:
        # The host may cut a proposal to the room that is left; it may not change it otherwise.
        owner = next(found for found in unmatched if found[0] == drafts[0] and found[1][: len(drafts[1])] == drafts[1])
        unmatched.remove(owner)
    assert any("UNREACHABLE" in states for _, states in seen.states), "no draft was illegal: the test shows nothing"
    assert any(states.count("READY") > 2 for _, states in seen.states), "no draft was legal: the test shows nothing"


@pytest.mark.contract("MSK-2", "MSK-4")
def test_every_position_of_a_verified_row_has_a_state(run: tuple[list[Answer], Watched]) -> None:
    _, seen = run
    for (_, drafts), (_, states) in zip(seen.scheduled, seen.states, strict=True):
        assert len(states) == len(drafts) + 1
        assert states[0] == "READY"
        ready = states.count("READY")
        assert states[:ready] == ("READY",) * ready


@pytest.mark.contract("SPC-4", "SPC-5", "SPC-6", "SPC-7", "MSK-9", "SES-2", "SES-5")
def test_greedy_outputs_equal_those_without_drafts(run: tuple[list[Answer], Watched], plain: list[Answer]) -> None:
    answers, _ = run
    for answer, expected in zip(answers, plain, strict=True):
        assert answer.only.text == expected.only.text
        assert answer.only.token_ids == expected.only.token_ids
        assert answer.only.finish_reason == expected.only.finish_reason


@pytest.mark.contract("GEN-1", "SPC-7", "END-1")
def test_outputs_are_valid(run: tuple[list[Answer], Watched]) -> None:
    person, date, nested, choice, free = (answer.only for answer in run[0])
    assert admits(Person, person.text)
    assert expression("date", DATE).is_member(date.text)
    assert is_list_text(nested.text) or nested.finish_reason == "length"
    assert choice.text in ("four five", "five four", "four six")
    assert free.constraint is None
    for sample in (person, date, choice):
        assert sample.constraint is not None
        assert (sample.constraint.complete, sample.constraint.terminated) == (True, True)


@pytest.mark.contract("OBS-1")
def test_records_count_every_mask_that_was_computed(run: tuple[list[Answer], Watched]) -> None:
    """Positions behind an illegal draft are shipped but not computed; steps without drafts have one position."""
    answers, seen = run
    with_drafts = sum(len(states) - states.count("UNREACHABLE") for _, states in seen.states)
    records = [answer.only.constraint for answer in answers if answer.only.constraint is not None]
    assert sum(record.mask_positions for record in records) >= with_drafts
    assert all(record.mask_bytes >= record.mask_positions * 4 for record in records)


def generate_watched(llm: Any, asks: list[Ask]) -> tuple[list[Answer], Watched]:
    """Runs beside the engine: the answers and what became of the drafts."""
    with watching(llm) as seen:
        answers = generate(llm, asks)
    return answers, seen
