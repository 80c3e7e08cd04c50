"""Chat turns of the Python API on the real engine: budgets, continued messages, tools, and a long reasoning block."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ninfer_vllm.constraint import OutputConstraint, ToolConstraint
from ninfer_vllm.errors import ConflictingConstraint, InvalidContinuation, UnrepresentableToolValue
from tests.support.engine import IN_PROCESS, SELECTED, Answer, Ask, Engine, answer_of, chat, params_of
from tests.support.inspection import manager_of, state_of

pytestmark = pytest.mark.engine

USER = {"role": "user", "content": "Which city?"}
CITY = {
    "type": "object",
    "properties": {"name": {"const": "上海"}},
    "required": ["name"],
    "additionalProperties": False,
}
SPACED = OutputConstraint.choice([" yes", " no"])
LOOKUP = {
    "type": "function",
    "function": {
        "name": "lookup",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 1, "maxLength": 12},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
NAMED = {"type": "function", "function": {"name": "lookup"}}
CONTINUED = {"continue_final_message": True, "add_generation_prompt": False}
LONG = 4000


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    with Engine(tiny, IN_PROCESS, max_model_len=4608, enable_prefix_caching=True, **SELECTED) as running:
        yield running


def continued(content: str) -> list[dict[str, str]]:
    return [USER, {"role": "assistant", "content": content}]


@pytest.mark.contract("THK-7", "WEX-5", "THK-4")
@pytest.mark.parametrize("budget", [0, 1, 9])
def test_a_spent_budget_forces_the_same_close_and_the_space_stays(engine: Engine, budget: int) -> None:
    ids = engine.call(marker_ids)
    never = {ids["</think>"]: -90.0}
    sampling = {"temperature": 1.0, "max_tokens": 60, "thinking_token_budget": budget, "logit_bias": never}
    asks = [Ask([USER], SPACED, {**sampling, "seed": seed}) for seed in range(6)]
    for answer in engine.chat(asks, chat_template_kwargs={"enable_thinking": True}):
        sample, tokens = answer.only, list(answer.only.token_ids)
        assert tokens[0] == ids["<think>"]
        close = tokens.index(ids["</think>"])
        inside = tokens[1:close]
        # The budget, and the line break that the close needs where the last line is not ended.
        assert budget <= len(inside) <= budget + 1 or (budget == 0 and len(inside) == 1)
        assert (sample.finish_reason, sample.text.split("</think>\n\n")[1]) in [("stop", " yes"), ("stop", " no")]
        record = sample.constraint
        assert record is not None
        assert (record.complete, record.reasoning_tokens) == (True, close + 1)


@pytest.mark.contract("THK-6", "SES-6")
def test_a_long_reasoning_block_costs_the_same_at_every_token_and_keeps_nothing(engine: Engine) -> None:
    ids = engine.call(marker_ids)
    sampling = {"temperature": 1.0, "seed": 1, "max_tokens": LONG, "logit_bias": {ids["</think>"]: -90.0}}
    counts = engine.call(work_of_thinking, Ask([USER], SPACED, sampling))
    assert len(counts) >= LONG - 1
    assert counts[LONG // 4] == counts[-1], "calls a token, entries that are kept, bytes of the session"
    assert counts[-1]["body calls"] == 0


@pytest.mark.contract("CON-1", "CON-3", "WEX-7", "ENG-2")
def test_a_continued_message_is_preempted_and_resumed_and_its_prefix_read_once(engine: Engine) -> None:
    answer, readings, preemptions = engine.call(
        continue_with_preemption, continued('{"name":'), OutputConstraint.json_schema(CITY)
    )
    assert (answer.only.text, answer.only.finish_reason) == ('"上海"}', "stop")
    assert (readings, preemptions) == (1, 1)
    record = answer.only.constraint
    assert record is not None
    assert (record.complete, record.terminated, record.reasoning_tokens) == (True, True, 0)


@pytest.mark.contract("CON-1", "CON-5", "CMP-2")
def test_every_prefix_of_an_object_is_continued_with_the_rest_of_it(engine: Engine) -> None:
    whole = '{"name":"上海"}'
    constraint = OutputConstraint.json_schema(CITY)
    for cut in (1, 5, 9, 10, 11, len(whole)):
        (answer,) = engine.chat([Ask(continued(whole[:cut]), constraint, {"max_tokens": 20})], **CONTINUED)
        assert whole[:cut] + answer.only.text == whole
        assert answer.only.finish_reason == "stop"
        assert answer.only.constraint is not None
        assert answer.only.constraint.complete


@pytest.mark.contract("CON-4", "GEN-6")
@pytest.mark.parametrize(
    ("content", "offset"), [('{"nome":', 3), (" {", 0), ('{"name":"上河', 13), ('{"name":"上海"}x', 17)]
)
def test_content_that_is_no_prefix_is_refused_at_its_first_wrong_byte(
    engine: Engine, content: str, offset: int
) -> None:
    before = engine.call(state_of)
    with pytest.raises(InvalidContinuation) as refusal:
        engine.chat([Ask(continued(content), OutputConstraint.json_schema(CITY))], **CONTINUED)
    assert refusal.value.offset == offset
    assert engine.call(state_of) == before


@pytest.mark.contract("CON-2", "CON-4")
def test_content_that_the_template_would_alter_is_refused(engine: Engine) -> None:
    thought = continued("<think>\nhm\n</think>\n\n{")
    with pytest.raises(ConflictingConstraint) as refusal:
        engine.chat([Ask(thought, OutputConstraint.json_object())], **CONTINUED)
    assert refusal.value.place == {"field": "continue_final_message"}


@pytest.mark.contract("CON-1", "ENG-6")
def test_a_continued_message_without_a_constraint_is_the_hosts(engine: Engine) -> None:
    (answer,) = engine.chat([Ask(continued("once"), None, {"max_tokens": 3})], **CONTINUED)
    assert answer.only.constraint is None


@pytest.mark.contract("CON-4", "TOOL-10", "CON-1")
def test_an_unfinished_call_is_continued_and_read_as_one_call(engine: Engine) -> None:
    tools = ToolConstraint([LOOKUP], "required")
    begun = '<tool_call>\n{"name": "lookup", "arguments": {"city": "Ro'
    sampling = {"max_tokens": 80, "temperature": 1.0, "seed": 2}
    (answer,) = engine.chat([Ask(continued(begun), tools, sampling)], **CONTINUED)
    if answer.only.finish_reason == "stop":
        text = (begun + answer.only.text).split("<tool_call>\n")[1].split("\n</tool_call>")[0]
        call = json.loads(text)
        assert call["arguments"]["city"].startswith("Ro")
        jsonschema.validate(call["arguments"], LOOKUP["function"]["parameters"])
    finished = begun + '", "days": 3}}\n</tool_call>'
    with pytest.raises(ConflictingConstraint):
        engine.chat([Ask(continued(finished), tools)], **CONTINUED)


@pytest.mark.contract("WEX-6", "TOOL-4", "TOOL-5", "TOOL-6", "API-2", "OBS-1")
@pytest.mark.parametrize("dialect", ["xml", "hermes"])
def test_a_named_strict_tool_is_called_once_with_valid_arguments(engine: Engine, dialect: Any) -> None:
    tools = ToolConstraint([LOOKUP], NAMED, dialect=dialect)
    asks = [Ask([USER], tools, {"max_tokens": 150, "temperature": 1.0, "seed": seed}) for seed in range(8)]
    options = {"tools": [LOOKUP], "chat_template_kwargs": {"enable_thinking": False}}
    answers = engine.call(chat_and_read, asks, tools, options)
    finished = 0
    for answer, (content, calls) in answers:
        record = answer.only.constraint
        assert record is not None
        assert (record.kind, record.branch) == ("tools", "tools")
        assert content is None
        if answer.only.finish_reason == "stop":
            ((name, arguments),) = calls
            assert name == "lookup"
            jsonschema.validate(json.loads(arguments), LOOKUP["function"]["parameters"])
            finished += 1
        else:
            assert calls == [], "an unfinished call yields no arguments"
    assert finished >= 4


@pytest.mark.contract("WEX-6", "TOOL-8")
def test_a_value_that_holds_its_own_end_is_refused_while_preparing(engine: Engine) -> None:
    function = {**LOOKUP["function"], "parameters": {**LOOKUP["function"]["parameters"]}}  # type: ignore[dict-item]
    properties = {"city": {"const": "a\n</parameter>"}, "days": {"type": "integer"}}
    function["parameters"] = {**function["parameters"], "properties": properties}
    tools = ToolConstraint([{"type": "function", "function": function}], NAMED, dialect="xml")
    before = engine.call(state_of)
    with pytest.raises(UnrepresentableToolValue) as refusal:
        engine.chat([Ask([USER], tools)])
    assert refusal.value.pointer.startswith("/0/function/parameters/properties/city")
    assert engine.call(state_of) == before


def marker_ids(llm: Any) -> dict[str, int]:
    """Runs beside the engine: ids by visible text."""
    tokenizer = llm.get_tokenizer()
    (newline,) = tokenizer.encode("\n", add_special_tokens=False)
    return {**tokenizer.get_added_vocab(), "\n": newline}


def chat_and_read(llm: Any, asks: list[Ask], tools: ToolConstraint, options: dict[str, Any]) -> list[Any]:
    """Runs beside the engine: answers with the content and the calls that are read out of them."""
    from ninfer_vllm.host.chat_reading import read_chat

    results = llm.chat([ask.prompt for ask in asks], [params_of(ask) for ask in asks], use_tqdm=False, **options)
    read = []
    for result in results:
        (message,) = read_chat(llm, result, tools)
        calls = [(call.name, call.arguments) for call in message.tool_calls]
        read.append((answer_of(result), (message.content, calls)))
    return read


def continue_with_preemption(
    llm: Any, messages: list[dict[str, str]], constraint: OutputConstraint
) -> tuple[Answer, int, int]:
    """Runs beside the engine: one continued turn whose request is preempted as soon as it has published something."""
    from ninfer_vllm.session import session as sessions

    readings: list[object] = []
    original = sessions.continue_from

    def counted(*arguments: Any) -> None:
        readings.append(arguments)
        original(*arguments)

    sessions.continue_from = counted
    preemptions = 0
    try:
        ask = Ask(messages, constraint, {"max_tokens": 20, "temperature": 0.0})
        llm.enqueue_chat([messages], params_of(ask), use_tqdm=False, **CONTINUED)
        scheduler = manager_scheduler(llm)
        while True:
            for result in llm.llm_engine.step():
                if result.finished:
                    return answer_of(result), len(readings), preemptions
            running = [request for request in scheduler.running if request.num_output_tokens]
            if running and not preemptions:
                llm.reset_prefix_cache(reset_running_requests=True)
                preemptions += 1
    finally:
        sessions.continue_from = original


def manager_scheduler(llm: Any) -> Any:
    """Runs beside the engine."""
    return llm.llm_engine.engine_core.engine_core.scheduler


def work_of_thinking(llm: Any, ask: Ask) -> list[dict[str, int]]:
    """Runs beside the engine: for every token of an open block, what its mask cost and what the session keeps."""
    manager = manager_of(llm)
    masks = manager.grammar_bitmask
    counts: list[dict[str, int]] = []
    calls: list[str] = []

    def noted(*arguments: Any) -> Any:
        (session,) = manager.sessions.values()
        phases = session._phases
        if type(phases._body).__name__ != "Counted":
            phases._body = Counted(phases._body, calls)
        before = session.record.mask_positions
        buffer = masks(*arguments)
        counts.append(
            {
                "positions": session.record.mask_positions - before,
                "body calls": len(calls),
                "undo": len(phases._undo),
                "bytes": kept_bytes(phases),
            }
        )
        return buffer

    manager.grammar_bitmask = noted
    try:
        (answer,) = chat(llm, [ask], {"chat_template_kwargs": {"enable_thinking": True}})
    finally:
        del manager.grammar_bitmask
    assert answer.only.finish_reason == "length"
    return counts


def kept_bytes(phases: Any) -> int:
    """Bytes of the containers that the phase holds itself; what all sessions share is not counted."""
    import sys

    own = (value for name, value in vars(phases).items() if name not in ("_rules", "_body"))
    return sum(sys.getsizeof(value) for value in own if isinstance(value, list | tuple | dict))


class Counted:
    """A matcher that notes when it is asked for work."""

    def __init__(self, matcher: Any, calls: list[str]) -> None:
        self._matcher = matcher
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if name in ("accept", "accept_bytes", "fill"):
            self._calls.append(name)
        return getattr(self._matcher, name)
