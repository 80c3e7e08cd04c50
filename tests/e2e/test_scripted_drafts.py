"""Speculative decoding with drafts that the test writes: legal, illegal, past the end, and into dead ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConstraintDeadEnd
from tests.support.drafts import Watched, watching
from tests.support.engine import IN_PROCESS, SELECTED, Answer, Ask, Engine, generate
from tests.support.inspection import add, drain, state_of, step

pytestmark = pytest.mark.engine

SPECULATION = {"method": "custom_class", "model": "tests.support.proposers.Scripted", "num_speculative_tokens": 3}
GREEDY = {"temperature": 0.0, "max_tokens": 12}
FREE = Ask("The capital of France is", None, {**GREEDY, "max_tokens": 6})
PROMPTS = {"unreached": "Answer A:", "reached": "Answer B:", "cancelled": "Answer C:", "one": "Answer D:"}


@dataclass(frozen=True, slots=True)
class Script:
    """A request, and the drafts proposed behind the first token of its output."""

    ask: Ask
    drafts: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """What the model does without drafts: the letter it prefers behind each prompt and ">", its end and a free text."""

    liked: dict[str, str]
    eos: int
    free: tuple[int, ...]

    def script(self, name: str, pattern: str, drafts: str, *others: int | str) -> Script:
        """A script whose pattern and drafts say L for the liked letter and O for the other one."""
        liked = self.liked[name]
        letters = str.maketrans({"L": liked, "O": "c" if liked == "b" else "b"})
        ask = asked(name, pattern.translate(letters))
        return Script(ask, (*drafts.translate(letters), *others))

    def text(self, name: str, text: str) -> str:
        """The text with the liked letter for L."""
        return text.replace("L", self.liked[name])


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    options = {"dtype": "float32", "max_model_len": 256, "speculative_config": SPECULATION}
    with Engine(smollm2, IN_PROCESS, **options, **SELECTED) as running:
        yield running


@pytest.fixture(scope="module")
def model(engine: Engine) -> Model:
    """Asked while no script is set."""
    *chosen, free = engine.generate([*(asked(name, ">[bc]") for name in PROMPTS), FREE])
    liked = {name: answer.only.text[1] for name, answer in zip(PROMPTS, chosen, strict=True)}
    return Model(liked, chosen[0].only.token_ids[-1], free.only.token_ids)


def asked(name: str, pattern: str) -> Ask:
    return Ask(PROMPTS[name], OutputConstraint.regex(pattern), GREEDY)


@pytest.mark.contract("WEX-8", "MSK-6", "ERR-4", "SPC-7", "ENG-3")
def test_dead_end_behind_a_draft_matters_only_where_it_is_reached(engine: Engine, model: Model) -> None:
    scripts = {
        # The vocabulary has no token for the byte 04: behind the drafted letter nothing is legal.
        "unreached": model.script("unreached", r">(O\x04|L!)", "O!"),
        "reached": model.script("reached", r">(L\x04|O!)", "L!"),
        "free": Script(FREE, (model.free[1], 17)),
        "cancelled": model.script("cancelled", ">(L!){40}", "L!L"),
    }
    answers, seen, state = engine.call(run_scripts, scripts, "cancelled")
    assert set(answers) == {"unreached", "reached", "free"}
    unreached, reached, free = (answers[name].only for name in ("unreached", "reached", "free"))
    assert (unreached.text, unreached.finish_reason) == (model.text("unreached", ">L!"), "stop")
    assert ("unreached", ("READY", "DEAD_END", "UNREACHABLE")) in seen.states
    # Both tokens of the step are lost, the accepted draft before the dead end included.
    assert (reached.text, reached.finish_reason, reached.stop_reason) == (">", "error", "constraint_dead_end")
    assert reached.error == ConstraintDeadEnd(2)
    assert ("reached", ("READY", "DEAD_END", "UNREACHABLE")) in seen.states
    assert free.token_ids == model.free
    assert free.constraint is None
    assert ("cancelled", 3) in [(name, len(drafts)) for name, drafts in seen.scheduled]
    assert (state.sessions, state.step_rows, state.unfinished) == (0, 0, 0)


@pytest.mark.contract("WEX-3", "SPC-3", "MSK-4", "SPC-4")
def test_illegal_draft_is_kept_and_rejected_by_the_target(engine: Engine, model: Model) -> None:
    answers, seen, _ = engine.call(run_scripts, {"one": model.script("one", ">(L|O)!", "x!!")}, None)
    assert answers["one"].only.text == model.text("one", ">L!")
    ((_, proposed),) = seen.proposed
    ((_, scheduled),) = seen.scheduled
    assert len(proposed) == 3
    assert scheduled == proposed
    assert seen.states == [("one", ("READY", "UNREACHABLE", "UNREACHABLE", "UNREACHABLE"))]


@pytest.mark.contract("SPC-5", "MSK-4", "SES-5", "END-1")
def test_nothing_behind_an_accepted_end_is_committed(engine: Engine, model: Model) -> None:
    script = model.script("one", ">(L|O)", "L", model.eos, "!")
    answers, seen, _ = engine.call(run_scripts, {"one": script}, None)
    sample = answers["one"].only
    assert (sample.text, sample.finish_reason) == (model.text("one", ">L"), "stop")
    assert sample.token_ids[-1] == model.eos
    assert len(sample.token_ids) == 3
    assert sample.constraint is not None
    assert (sample.constraint.complete, sample.constraint.terminated) == (True, True)
    assert seen.states == [("one", ("READY", "READY", "UNREACHABLE", "UNREACHABLE"))]


@pytest.mark.contract("MSK-6", "ERR-4", "SPC-5")
def test_dead_end_behind_the_end_of_the_budget_is_not_reached(engine: Engine, model: Model) -> None:
    script = model.script("reached", r">(L\x04|O!)", "L!")
    cut = replace(script, ask=replace(script.ask, sampling={**GREEDY, "max_tokens": 2}))
    answers, _, state = engine.call(run_scripts, {"reached": cut}, None)
    sample = answers["reached"].only
    assert (sample.text, sample.finish_reason) == (model.text("reached", ">L"), "length")
    assert sample.error is None
    assert (state.sessions, state.step_rows) == (0, 0)


@pytest.mark.contract("SPC-4", "SES-2", "SES-3")
def test_legal_drafts_are_accepted_together_with_the_bonus_token(engine: Engine, model: Model) -> None:
    # No two of these characters are one token, so each step has one legal token.
    answers, seen, _ = engine.call(run_scripts, {"one": model.script("one", ">L~L~", "L~L")}, None)
    sample = answers["one"].only
    assert sample.text == model.text("one", ">L~L~")
    assert seen.states == [("one", ("READY",) * 4)]
    assert sample.constraint is not None
    # One mask for the first token, four for the drafts and the bonus token, one for the end.
    assert sample.constraint.mask_positions == 6


def run_scripts(llm: Any, scripts: dict[str, Script], cancelled: str | None) -> tuple[dict[str, Answer], Watched, Any]:
    """Runs beside the engine: all scripts in one batch; one request may be cancelled once its drafts were verified."""
    answers: dict[str, Answer] = {}
    set_drafts(llm, scripts)
    with watching(llm) as seen:
        ids = add(llm, {name: script.ask for name, script in scripts.items()})
        while cancelled is not None and all(found != ids[cancelled] for found, _ in seen.scheduled):
            step(llm, answers)
        if cancelled is not None:
            llm.llm_engine.abort_request([ids[cancelled]], internal=True)
        drain(llm, answers)
    names = {found: name for name, found in ids.items()}
    for noted in (seen.proposed, seen.scheduled, seen.states):
        noted[:] = [(names[found], value) for found, value in noted]  # type: ignore[misc]
    return answers, seen, state_of(llm)


def set_drafts(llm: Any, scripts: dict[str, Script]) -> None:
    """Runs beside the engine: tell the proposer what comes behind each request's first token."""
    from tests.support import proposers

    def encoded(text: str) -> list[int]:
        tokens: list[int] = llm.get_tokenizer().encode(text, add_special_tokens=False)
        return tokens

    proposers.DRAFTS.clear()
    firsts = {name: generate(llm, [script.ask])[0] for name, script in scripts.items()}
    for name, script in scripts.items():
        so_far = (*firsts[name].prompt_token_ids, firsts[name].only.token_ids[0])
        drafts = [token for part in script.drafts for token in ([part] if isinstance(part, int) else encoded(part))]
        proposers.DRAFTS[so_far] = drafts
