"""Rows of one batch on the real engine: each is its own, whatever happens to its neighbours."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import CompileFailed, ConstraintDeadEnd, Unsatisfiable
from tests.support.engine import IN_PROCESS, SELECTED, Answer, Ask, Engine, generate
from tests.support.inspection import add, blocks_of, drain, manager_of, scheduler_of, state_of, step
from tests.support.kinds import DATE, LITERALS, expression

pytestmark = pytest.mark.engine

# Full precision, so that a row's greedy text does not depend on how many rows run beside it.
OPTIONS = {"dtype": "float32", "max_model_len": 256}
GREEDY = {"temperature": 0.0, "max_tokens": 24}
PROMPTS = ["The capital of France is", "Once upon a time", "One, two, three,", "def add(a, b):"]
FREE = [Ask(prompt, None, {**GREEDY, "max_tokens": 8}) for prompt in PROMPTS]
DATE_ASK = Ask("The first day of 2024 was", OutputConstraint.regex(DATE), GREEDY)
CHOICE_ASK = Ask("I like it. This review is", OutputConstraint.choice(["positive", "negative"]), GREEDY)

HANG_S = 600
"""Seconds after which a request that never asks for its grammar is given up."""

ADVANCING = ("look_ahead", "preview", "commit", "finish")
"""What moves a session once it has its matcher."""

HEALTHY = [DATE_ASK, CHOICE_ASK, FREE[0]]

# SmolLM2's vocabulary has no token for the byte 04, so this language ends nowhere behind "ok".
NO_WAY_ON = Ask("Well,", OutputConstraint.regex(r"ok\x04"), GREEDY)
DEAD_ENDS = {
    "vocabulary": (NO_WAY_ON, "ok"),
    "allowed_token_ids": (replace(CHOICE_ASK, sampling={**GREEDY, "allowed_token_ids": [5]}), ""),
    "bad_words": (
        Ask("Well,", OutputConstraint.regex("a1"), {**GREEDY, "bad_words": ["1"]}),
        "a",
    ),
    # Of a row in which nothing is left the host samples token 0: an end token here, which the constraint takes.
    "end token": (Ask("Well,", OutputConstraint.regex("a?"), {**GREEDY, "allowed_token_ids": [5]}), ""),
}


@pytest.fixture(scope="module")
def stock(smollm2: Path) -> list[Answer]:
    """What an engine writes that does not even load the plugin."""
    with Engine(smollm2, {**IN_PROCESS, "VLLM_PLUGINS": "none"}, **OPTIONS) as running:
        return running.generate(FREE)


@pytest.fixture(scope="module")
def engine(smollm2: Path, stock: list[Answer]) -> Iterator[Engine]:
    with Engine(smollm2, IN_PROCESS, **OPTIONS, **SELECTED) as running:
        yield running


@pytest.fixture(scope="module")
def healthy(engine: Engine, stock: list[Answer]) -> list[Answer]:
    """What the rows that run beside failing ones write without those."""
    answers = engine.generate(HEALTHY)
    assert all(answer.only.finish_reason == "stop" for answer in answers[:2])
    assert texts(answers[2]) == texts(stock[0])
    return answers


@pytest.mark.contract("ENG-6", "MSK-7", "TOK-6")
def test_unconstrained_requests_are_as_stock_and_cost_no_mask_work(engine: Engine, stock: list[Answer]) -> None:
    before = engine.call(state_of)
    assert engine.generate(FREE) == stock
    assert engine.call(state_of) == before
    assert before.mask_calls == 0
    assert engine.call(has_no_vocabulary)


@pytest.mark.contract("MSK-7", "ENG-6", "GEN-7")
def test_mixed_batches_constrain_only_the_rows_that_ask_for_it(engine: Engine, stock: list[Answer]) -> None:
    answers = engine.generate([FREE[0], DATE_ASK, FREE[1], CHOICE_ASK, FREE[2], FREE[3]])
    assert [answers[at] for at in (0, 2, 4, 5)] == stock
    assert expression("date", DATE).is_member(answers[1].only.text)
    assert answers[3].only.text in ("positive", "negative")
    record = answers[1].only.constraint
    assert record is not None
    words = engine.call(num_words)
    assert record.mask_positions == len(answers[1].only.token_ids)
    assert record.mask_bytes == record.mask_positions * words * 4


@pytest.mark.contract("ERR-4", "ERR-5", "ERR-6", "MSK-3", "REQ-8", "SMP-4")
@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", DEAD_ENDS)
def test_row_at_a_dead_end_fails_alone(engine: Engine, healthy: list[Answer], name: str, temperature: float) -> None:
    ask, published = DEAD_ENDS[name]
    failing = replace(ask, sampling={**ask.sampling, "temperature": temperature})
    before = engine.call(state_of)
    first, failed, *others = engine.generate([HEALTHY[0], failing, *HEALTHY[1:]])
    sample = failed.only
    assert (sample.text, sample.finish_reason, sample.stop_reason) == (published, "error", "constraint_dead_end")
    assert sample.error == ConstraintDeadEnd(len(sample.token_ids))
    assert sample.constraint is not None
    assert sample.constraint.error == sample.error.to_json()
    assert sample.constraint.terminated is False
    assert [texts(answer) for answer in (first, *others)] == [texts(answer) for answer in healthy]
    after = engine.call(state_of)
    assert after == replace(before, mask_calls=after.mask_calls)


@pytest.mark.contract("ERR-4", "ENG-4")
def test_failed_row_gives_its_blocks_back_while_the_others_run(engine: Engine) -> None:
    held, left = engine.call(blocks_while_running, {"failing": NO_WAY_ON, "healthy": DATE_ASK, "free": FREE[1]})
    assert held["failing"] > 0
    assert left["failing"] == 0
    assert left["healthy"] > 0
    assert left["free"] > 0


@pytest.mark.contract("ENG-4", "SES-1", "ERR-4")
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_cancelled_row_ends_its_session_and_leaves_the_others_alone(
    engine: Engine, healthy: list[Answer], steps: int
) -> None:
    before = engine.call(state_of)
    asks = {"cancelled": DATE_ASK, "healthy": CHOICE_ASK, "free": FREE[0]}
    answers = engine.call(cancel_after, asks, "cancelled", steps)
    assert set(answers) == {"healthy", "free"}
    assert texts(answers["healthy"]) == texts(healthy[1])
    assert texts(answers["free"]) == texts(healthy[2])
    after = engine.call(state_of)
    assert after == replace(before, mask_calls=after.mask_calls)
    assert after.sessions == 0


@pytest.mark.contract("CMP-3", "OBS-1")
def test_concurrent_requests_for_one_grammar_share_its_build(engine: Engine) -> None:
    ask = Ask("Choose:", OutputConstraint.choice([*LITERALS, "only here"]), GREEDY)
    assert engine.call(outcomes_of_slow_build, [ask] * 4) == ["built", "waited", "waited", "waited"]
    again = engine.generate([ask])[0].only.constraint
    assert again is not None
    assert again.cache == "hit"


@pytest.mark.contract("CMP-8", "ERR-3", "ERR-6")
def test_failing_build_fails_its_request_alone(engine: Engine) -> None:
    ask = Ask("Choose:", OutputConstraint.choice(["never", "built"]), GREEDY)
    failed, healthy = engine.call(generate_with_broken_engine, [ask, CHOICE_ASK])
    assert failed.only.finish_reason == "error"
    assert isinstance(failed.only.error, CompileFailed)
    assert failed.only.token_ids == ()
    assert healthy.only.finish_reason == "stop"
    assert engine.generate([ask])[0].only.text in ("never", "built")
    assert engine.call(state_of).sessions == 0


@pytest.mark.contract("CMP-10", "CMP-8", "ERR-6")
def test_language_that_the_vocabulary_cannot_start_fails_its_request_alone(engine: Engine) -> None:
    """Known only where the grammar meets the vocabulary, in the engine core."""
    failed, healthy = engine.generate([Ask("Well,", OutputConstraint.regex(r"\x04")), CHOICE_ASK])
    assert (failed.only.finish_reason, failed.only.stop_reason) == ("error", "unsatisfiable")
    assert isinstance(failed.only.error, Unsatisfiable)
    assert failed.only.token_ids == ()
    assert healthy.only.finish_reason == "stop"
    assert engine.call(state_of).sessions == 0


@pytest.mark.contract("OBS-1", "OBS-4")
def test_timings_are_absent_unless_asked_for(engine: Engine) -> None:
    record = engine.generate([CHOICE_ASK])[0].only.constraint
    assert record is not None
    assert record.timings is None
    assert record.engine == "native"


@pytest.mark.contract("SES-7")
def test_only_the_engines_thread_advances_a_session(engine: Engine) -> None:
    advanced, engine_thread = engine.call(threads_that_advance, HEALTHY)
    assert advanced == {name: {engine_thread} for name in ADVANCING}


def texts(answer: Answer) -> list[str]:
    return [sample.text for sample in answer.samples]


def threads_that_advance(llm: Any, asks: list[Ask]) -> tuple[dict[str, set[int]], int]:
    """The threads in which each advancing method of a session ran, and the thread that steps the engine."""
    from ninfer_vllm.session.session import OutputSession

    seen: dict[str, set[int]] = {name: set() for name in ADVANCING}
    with pytest.MonkeyPatch.context() as patch:
        for name in ADVANCING:
            patch.setattr(OutputSession, name, _noting(getattr(OutputSession, name), seen[name]))
        generate(llm, asks)
    return seen, threading.get_ident()


def _noting(method: Callable[..., Any], threads: set[int]) -> Callable[..., Any]:
    @wraps(method)
    def noting(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return method(*arguments)

    return noting


def num_words(llm: Any) -> int:
    """Runs beside the engine: 32-bit words of a mask row."""
    return -(-llm.llm_engine.vllm_config.model_config.get_vocab_size() // 32)


def has_no_vocabulary(llm: Any) -> bool:
    """Runs beside the engine: whether the token domain has not been adapted."""
    return "vocabulary" not in vars(manager_of(llm))


def blocks_while_running(llm: Any, asks: dict[str, Ask]) -> tuple[dict[str, int], dict[str, int]]:
    """Runs beside the engine: KV blocks a request after the first token, and right after the first request ended."""
    answers: dict[str, Answer] = {}
    add(llm, asks)
    while not all(request.num_output_tokens for request in scheduler_of(llm).requests.values()):
        step(llm, answers)
    held = {name: blocks_of(llm, name) for name in asks}
    while not answers:
        step(llm, answers)
    left = {name: blocks_of(llm, name) for name in asks}
    drain(llm, answers)
    return held, left


def cancel_after(llm: Any, asks: dict[str, Ask], name: str, steps: int) -> dict[str, Answer]:
    """Runs beside the engine: cancel one of the requests after some steps."""
    answers: dict[str, Answer] = {}
    ids = add(llm, asks)
    for _ in range(steps):
        step(llm, answers)
    llm.llm_engine.abort_request([ids[name]], internal=True)
    drain(llm, answers)
    return answers


def outcomes_of_slow_build(llm: Any, asks: list[Ask]) -> list[str]:
    """Runs beside the engine: how each request came by its grammar when building it ends after all have asked."""
    compiler = manager_of(llm).compiler
    submit, compile_once = compiler.submit, compiler.engine.compile
    asked = threading.Semaphore(0)

    def noted(*arguments: Any) -> Any:
        answer = submit(*arguments)
        asked.release()
        return answer

    def slowly(grammar: Any) -> Any:
        for _ in asks:
            assert asked.acquire(timeout=HANG_S)
        return compile_once(grammar)

    compiler.submit, compiler.engine.compile = noted, slowly
    try:
        answers = generate(llm, asks)
    finally:
        del compiler.submit, compiler.engine.compile
    return sorted(answer.only.constraint.cache for answer in answers if answer.only.constraint is not None)


def generate_with_broken_engine(llm: Any, asks: list[Ask]) -> list[Answer]:
    """Runs beside the engine: requests while the grammar engine fails on what is not cached."""
    engine = manager_of(llm).compiler.engine

    def broken(grammar: Any) -> Any:
        raise RuntimeError("out of order")

    engine.compile = broken
    try:
        return generate(llm, asks)
    finally:
        del engine.compile
