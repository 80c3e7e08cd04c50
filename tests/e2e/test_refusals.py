"""Requests that are refused before anything is queued, each with its error and place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConstraintError
from tests.support.engine import IN_PROCESS, SELECTED, Ask, Engine
from tests.support.inspection import state_of

pytestmark = pytest.mark.engine

VALID = OutputConstraint.choice(["yes", "no"])
CHAT = [{"role": "user", "content": "Yes or no?"}, {"role": "assistant", "content": "ye"}]


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    with Engine(tiny, IN_PROCESS, **SELECTED) as running:
        yield running


def refusal(engine: Engine, function: Any, *arguments: Any) -> ConstraintError:
    """The error of a call that must be refused, with nothing queued and the engine as before."""
    before = engine.call(state_of)
    with pytest.raises(ConstraintError) as caught:
        engine.call(function, *arguments)
    assert isinstance(caught.value, ValueError)
    assert engine.call(state_of) == before
    return caught.value


LANGUAGES: dict[str, tuple[OutputConstraint, str, dict[str, Any]]] = {
    "regex look-ahead": (OutputConstraint.regex("a(?=b)"), "invalid_regex", {"offset": 1}),
    "regex unbalanced": (OutputConstraint.regex("(a"), "invalid_regex", {}),
    "grammar syntax": (OutputConstraint.grammar('root ::= "a"\nroot2 ::= ('), "invalid_grammar", {"line": 2}),
    "grammar without root": (OutputConstraint.grammar('start ::= "a"'), "invalid_grammar", {}),
    "grammar undefined rule": (
        OutputConstraint.grammar("root ::= missing"),
        "invalid_grammar",
        {"line": 1, "column": 10},
    ),
    "grammar without finite text": (OutputConstraint.grammar('root ::= "a" root'), "invalid_grammar", {"line": 1}),
    "grammar names the end": (OutputConstraint.grammar("root ::= Token(151645)"), "invalid_grammar", {"line": 1}),
    "schema keyword": (
        OutputConstraint.json_schema({"properties": {"a": {"$dynamicRef": "#x"}}}),
        "unsupported_schema",
        {"pointer": "/properties/a/$dynamicRef"},
    ),
    "schema unknown keyword": (
        OutputConstraint.json_schema({"type": "object", "additonalProperties": False}),
        "unsupported_schema",
        {"pointer": "/additonalProperties"},
    ),
    "schema malformed": (OutputConstraint.json_schema({"type": "text"}), "invalid_schema", {"pointer": "/type"}),
    "schema text": (OutputConstraint.json_schema('{"type": "object",}'), "invalid_schema", {"line": 1}),
    "schema admits nothing": (
        OutputConstraint.json_schema({"type": "integer", "minimum": 3, "maximum": 2}),
        "unsatisfiable",
        {},
    ),
    "schema reference": (OutputConstraint.json_schema({"$ref": "#/$defs/a"}), "invalid_schema", {"pointer": "/$ref"}),
}


@pytest.mark.contract("ERR-1", "ERR-2", "GEN-6", "GBNF-2", "GBNF-3", "GBNF-4", "RGX-6", "JSD-7", "JSD-8", "JSD-9")
@pytest.mark.parametrize("name", LANGUAGES)
def test_constraint_outside_its_language_is_refused_with_its_place(engine: Engine, name: str) -> None:
    constraint, code, place = LANGUAGES[name]
    error = refusal(engine, generate_one, constraint, {})
    assert error.code == code
    assert place.items() <= error.place.items()


FIELDS: dict[str, dict[str, Any]] = {
    "stop": {"stop": ["\n"]},
    "stop_token_ids": {"stop_token_ids": [5]},
    "ignore_eos": {"ignore_eos": True},
    "include_stop_str_in_output": {"include_stop_str_in_output": True},
    "skip_special_tokens": {"skip_special_tokens": False},
}


@pytest.mark.contract("REQ-7", "ERR-2")
@pytest.mark.parametrize("field", FIELDS)
def test_sampling_parameter_that_contradicts_a_constraint_is_refused_by_name(engine: Engine, field: str) -> None:
    error = refusal(engine, generate_one, VALID, FIELDS[field])
    assert (error.code, error.place) == ("conflicting_constraint", {"field": field})


@pytest.mark.contract("REQ-7", "ENG-6")
@pytest.mark.parametrize("field", FIELDS)
def test_the_same_parameter_stays_usable_without_a_constraint(engine: Engine, field: str) -> None:
    answer = engine.generate([Ask("Yes?", None, {"max_tokens": 3, **FIELDS[field]})])[0]
    assert answer.only.finish_reason in ("length", "stop")
    assert answer.only.constraint is None


@pytest.mark.contract("REQ-7")
def test_beam_search_is_refused(engine: Engine) -> None:
    error = refusal(engine, beam_search, VALID)
    assert error.code == "conflicting_constraint"


@pytest.mark.contract("GEN-7", "CON-4")
def test_a_continued_message_that_is_no_prefix_is_refused_at_its_offset(engine: Engine) -> None:
    error = refusal(engine, continue_message, OutputConstraint.choice(["yours", "not"]))
    assert (error.code, error.place) == ("invalid_continuation", {"offset": 1})


HOST_MEMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "structural tag": ({"structural_tag": "{}"}, "structured_outputs.structural_tag"),
    "white space pattern": ({"json": {}, "whitespace_pattern": " "}, "structured_outputs.whitespace_pattern"),
    "additional properties": (
        {"json": {}, "disable_additional_properties": True},
        "structured_outputs.disable_additional_properties",
    ),
}


@pytest.mark.contract("GEN-6", "REQ-2")
@pytest.mark.parametrize("name", HOST_MEMBERS)
def test_host_member_with_another_meaning_is_refused_by_name(engine: Engine, name: str) -> None:
    members, field = HOST_MEMBERS[name]
    error = refusal(engine, generate_with_host_members, members)
    assert (error.code, error.place) == ("conflicting_constraint", {"field": field})


@pytest.mark.contract("API-3", "API-2")
@pytest.mark.parametrize(
    ("members", "texts"),
    [
        ({"choice": ["yes", "no"]}, ("yes", "no")),
        ({"regex": "y|n"}, ("y", "n")),
        ({"grammar": 'root ::= "y" | "n"'}, ("y", "n")),
        ({"json": {"enum": ["y", "n"]}}, ('"y"', '"n"')),
    ],
    ids=["choice", "regex", "grammar", "json"],
)
def test_host_members_are_executed(engine: Engine, members: dict[str, Any], texts: tuple[str, ...]) -> None:
    assert engine.call(generate_with_host_members, members) in texts


@pytest.mark.contract("ERR-6", "CMP-8")
def test_refused_request_takes_no_other_of_its_batch_with_it_into_the_engine(engine: Engine) -> None:
    refusal(engine, generate_after_a_valid_one, OutputConstraint.regex("(?=a)"))
    assert engine.generate([Ask("Yes?", VALID)])[0].only.text in ("yes", "no")


def generate_one(llm: Any, constraint: OutputConstraint, sampling: dict[str, Any]) -> None:
    """Runs beside the engine."""
    from vllm import SamplingParams

    llm.generate(["Yes?"], SamplingParams(structured_outputs=constraint, **sampling), use_tqdm=False)


def generate_after_a_valid_one(llm: Any, constraint: OutputConstraint) -> None:
    """Runs beside the engine: the refused request is the second of its batch."""
    from vllm import SamplingParams

    params = [SamplingParams(structured_outputs=one) for one in (VALID, constraint)]
    llm.generate(["Yes?", "Yes?"], params, use_tqdm=False)


def generate_with_host_members(llm: Any, members: dict[str, Any]) -> str:
    """Runs beside the engine: the host's own parameter class."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    params = SamplingParams(structured_outputs=StructuredOutputsParams(**members))
    text: str = llm.generate(["Yes?"], params, use_tqdm=False)[0].outputs[0].text
    return text


def continue_message(llm: Any, constraint: OutputConstraint) -> None:
    """Runs beside the engine."""
    from vllm import SamplingParams

    params = SamplingParams(structured_outputs=constraint)
    llm.chat([CHAT], params, continue_final_message=True, add_generation_prompt=False, use_tqdm=False)


def beam_search(llm: Any, constraint: OutputConstraint) -> None:
    """Runs beside the engine: the host's parameters of a beam search take no constraint, unless one is forced in."""
    from vllm.sampling_params import BeamSearchParams

    llm.beam_search([{"prompt": "Yes?"}], BeamSearchParams(beam_width=2, max_tokens=2, structured_outputs=constraint))
