"""Constraints of chat models that think: the reasoning is free, its close is canonical, then the content follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import IN_PROCESS, SELECTED, Answer, Ask, Engine, Sample, chat
from tests.support.inspection import manager_of, spelling_table, state_of

pytestmark = pytest.mark.engine

WORDS = ["yes", "no", " maybe"]
CHOICE = OutputConstraint.choice(WORDS)
MESSAGES = [{"role": "user", "content": "Is water wet? Answer yes or no."}]
MAX_TOKENS = 40


@dataclass(frozen=True, slots=True)
class Ids:
    """Token ids that the tests push up or down."""

    open: int
    close: int
    newline: int
    ends: frozenset[int]
    spelling: dict[int, bytes]
    """The bytes of every ordinary token."""


@dataclass(frozen=True, slots=True)
class Thinker:
    """A running thinking model."""

    engine: Engine
    ids: Ids
    opens_itself: bool

    def text(self, tokens: list[int]) -> bytes:
        """The bytes of ordinary tokens."""
        return b"".join(self.ids.spelling[token] for token in tokens)


@pytest.fixture(scope="module", params=["tiny-qwen3", "smollm2"])
def thinker(request: pytest.FixtureRequest, tiny: Path, smollm2: Path) -> Iterator[Thinker]:
    model = {"tiny-qwen3": tiny, "smollm2": smollm2}[request.param]
    with Engine(model, IN_PROCESS, **SELECTED) as running:
        yield Thinker(running, running.call(ids_of), opens_itself=request.param == "tiny-qwen3")


def asked(thinker: Thinker, count: int, bias: dict[int, float], **sampling: Any) -> list[Ask]:
    settings = {"temperature": 1.0, "max_tokens": MAX_TOKENS, "logit_bias": bias, **sampling}
    return [Ask(MESSAGES, CHOICE, {**settings, "seed": seed}) for seed in range(count)]


def think(thinker: Thinker, asks: list[Ask], *, enabled: bool = True) -> list[Sample]:
    answers = thinker.engine.chat(asks, chat_template_kwargs={"enable_thinking": enabled})
    return [answer.only for answer in answers]


def parts_of(thinker: Thinker, sample: Sample) -> tuple[list[int], list[int]]:
    """The tokens of the reasoning without its control tokens, and those behind the close; empty if it never came."""
    tokens = list(sample.token_ids)
    if thinker.opens_itself:
        assert tokens[0] == thinker.ids.open
        del tokens[0]
    if thinker.ids.close not in tokens:
        return tokens, []
    at = tokens.index(thinker.ids.close)
    return tokens[:at], tokens[at + 1 :]


@pytest.mark.contract("THK-2", "THK-3", "THK-4", "THK-5", "GEN-7")
def test_reasoning_closes_canonically_and_content_follows(thinker: Thinker) -> None:
    likely_close = {thinker.ids.newline: 15.0, thinker.ids.close: 15.0}
    samples = think(thinker, asked(thinker, 12, likely_close))
    lengths = set()
    for sample in samples:
        reasoning, rest = parts_of(thinker, sample)
        assert set(reasoning) <= set(thinker.ids.spelling)
        thought = thinker.text(reasoning)
        assert rest, "the bias closes every block in time"
        if thinker.opens_itself:
            assert thought.startswith(b"\n")
        assert thought.endswith(b"\n") or not thought, "the close stands at the start of a line"
        assert sample.finish_reason == "stop"
        assert rest[-1] in thinker.ids.ends
        content = thinker.text(rest[:-1])
        assert content.startswith(b"\n\n")
        # What follows the two newlines is content as it is, a leading space included.
        assert content[2:].decode() in WORDS
        record = sample.constraint
        assert record is not None
        assert (record.complete, record.terminated, record.branch) == (True, True, "content")
        assert record.reasoning_tokens == len(sample.token_ids) - len(rest)
        lengths.add(len(reasoning))
    assert max(lengths) > 1, "nothing was ever thought"


@pytest.mark.contract("THK-3", "TOK-3", "TOK-4")
def test_no_control_token_is_generated_while_thinking(thinker: Thinker) -> None:
    wanted = dict.fromkeys([*thinker.ids.ends, thinker.ids.open], 100.0) | {thinker.ids.close: -100.0}
    for sample in think(thinker, asked(thinker, 4, wanted)):
        reasoning, rest = parts_of(thinker, sample)
        assert rest == []
        assert set(reasoning) <= set(thinker.ids.spelling)
        assert (sample.finish_reason, len(sample.token_ids)) == ("length", MAX_TOKENS)
        record = sample.constraint
        assert record is not None
        assert (record.complete, record.terminated, record.branch) == (False, False, "undecided")
        assert record.reasoning_tokens == MAX_TOKENS


@pytest.mark.contract("THK-3", "THK-5")
def test_close_waits_for_the_start_of_a_line(thinker: Thinker) -> None:
    """With every newline banned an open block can not close behind other text, whatever the model wants."""
    newlines = [token for token, data in thinker.ids.spelling.items() if data.endswith(b"\n")]
    bias = dict.fromkeys(newlines, -100.0) | {thinker.ids.close: 5.0}
    for sample in think(thinker, asked(thinker, 6, bias)):
        reasoning, rest = parts_of(thinker, sample)
        thought = thinker.text(reasoning)
        assert (rest == []) == (bool(thought) and not thought.endswith(b"\n"))


@pytest.mark.contract("THK-2", "GEN-7")
def test_without_thinking_the_first_token_is_content(thinker: Thinker) -> None:
    for sample in think(thinker, asked(thinker, 4, {}), enabled=False):
        assert sample.text in WORDS
        assert sample.constraint is not None
        assert sample.constraint.reasoning_tokens == 0
    for answer in thinker.engine.generate([Ask("<think>\nRaw text:", ask.constraint) for ask in asked(thinker, 4, {})]):
        assert answer.only.text in WORDS


@pytest.mark.contract("THK-6", "SES-6")
def test_cost_of_thinking_does_not_grow_with_its_length(thinker: Thinker) -> None:
    never = dict.fromkeys([thinker.ids.close], -100.0)
    asks = asked(thinker, 1, never, max_tokens=60)
    body_calls, undo = thinker.engine.call(body_work_while_thinking, asks)
    assert body_calls == 0, "the grammar is not asked while thinking"
    assert max(undo) <= 1, "nothing is kept of committed reasoning"
    assert thinker.engine.call(state_of).sessions == 0


def ids_of(llm: Any) -> Ids:
    """Runs beside the engine: token ids from the model's own files."""
    tokenizer = llm.get_tokenizer()
    config = llm.llm_engine.vllm_config.model_config.try_get_generation_config()
    added = tokenizer.get_added_vocab()
    (newline,) = tokenizer.encode("\n", add_special_tokens=False)
    ends = frozenset(config["eos_token_id"])
    return Ids(added["<think>"], added["</think>"], newline, ends, spelling_table(llm))


def body_work_while_thinking(llm: Any, asks: list[Ask]) -> tuple[int, list[int]]:
    """Runs beside the engine: calls of the body's matcher, and lengths of the undo log, while a block stays open."""
    from ninfer_vllm.session.phases import PhasedMatcher

    manager = manager_of(llm)
    masks = manager.grammar_bitmask
    calls: list[str] = []
    undo: list[int] = []

    def noted(*arguments: Any) -> Any:
        for session in manager.sessions.values():
            phases = session._phases
            assert isinstance(phases, PhasedMatcher)
            undo.append(len(phases._undo))
            if not isinstance(phases._body, CountedMatcher):
                phases._body = CountedMatcher(phases._body, calls)
        return masks(*arguments)

    manager.grammar_bitmask = noted
    try:
        (answer,) = chat(llm, asks, {"chat_template_kwargs": {"enable_thinking": True}})
    finally:
        del manager.grammar_bitmask
    assert isinstance(answer, Answer)
    assert answer.only.finish_reason == "length"
    return len(calls), undo


class CountedMatcher:
    """A matcher that notes when it is asked for work."""

    def __init__(self, matcher: Any, calls: list[str]) -> None:
        self._matcher = matcher
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if name in ("accept", "accept_bytes", "fill"):
            self._calls.append(name)
        return getattr(self._matcher, name)
