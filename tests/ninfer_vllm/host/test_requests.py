"""From sampling parameters to a constraint; what contradicts one is refused by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MappingProxyType

import pytest
from pydantic import BaseModel, TypeAdapter
from vllm.sampling_params import SamplingParams, StructuredOutputsParams

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import ConflictingConstraint, ConstraintError, InvalidChoice, InvalidSchema
from ninfer_vllm.host.requests import CHAT_TURN, PAYLOAD_KEY, constraint_of, from_structured_outputs, refuse_conflicts

EOS = (7, 8)


class Point(BaseModel):
    x: int


@pytest.mark.contract("REQ-7")
@pytest.mark.parametrize(
    ("field", "params"),
    [
        ("stop", {"stop": ["a"]}),
        ("stop_token_ids", {"stop_token_ids": [3]}),
        ("ignore_eos", {"ignore_eos": True}),
        ("include_stop_str_in_output", {"include_stop_str_in_output": True}),
        ("skip_special_tokens", {"skip_special_tokens": False}),
    ],
)
def test_contradicting_fields_are_refused_by_name(field: str, params: dict) -> None:
    with pytest.raises(ConflictingConstraint) as refusal:
        refuse_conflicts(SamplingParams(**params), EOS)
    assert refusal.value.place == {"field": field}


@pytest.mark.contract("REQ-7")
def test_special_tokens_that_the_hosts_own_parser_asks_for_are_no_conflict() -> None:
    params = SamplingParams(skip_special_tokens=False, extra_args={PAYLOAD_KEY: CHAT_TURN})
    refuse_conflicts(params, EOS)
    forged = SamplingParams(skip_special_tokens=False, extra_args={PAYLOAD_KEY: {"chat": True}})
    with pytest.raises(ConflictingConstraint):
        refuse_conflicts(forged, EOS)


@pytest.mark.contract("REQ-7", "REQ-8")
def test_fields_that_stay_allowed_are_not_refused() -> None:
    params = SamplingParams(
        n=2, min_tokens=1, max_tokens=9, stop_token_ids=[8], logit_bias={1: 1.0}, bad_words=["a"],
        allowed_token_ids=[1, 2], presence_penalty=0.5, logprobs=2, seed=1, top_k=3,
    )  # fmt: skip
    refuse_conflicts(params, EOS)


@pytest.mark.contract("API-3", "REQ-1")
@pytest.mark.parametrize(
    ("given", "constraint"),
    [
        ({"json": {"type": "integer"}}, OutputConstraint.json_schema({"type": "integer"})),
        ({"json": '{"type": "integer"}'}, OutputConstraint.json_schema('{"type": "integer"}')),
        ({"json_object": True}, OutputConstraint.json_object()),
        ({"regex": "a+"}, OutputConstraint.regex("a+")),
        ({"choice": ["a", "b"]}, OutputConstraint.choice(["a", "b"])),
        ({"grammar": 'root ::= "a"'}, OutputConstraint.grammar('root ::= "a"')),
    ],
)
def test_host_members_mean_the_same_constraint(given: dict, constraint: OutputConstraint) -> None:
    assert from_structured_outputs(StructuredOutputsParams(**given)) == constraint


@pytest.mark.contract("REQ-2", "GEN-6")
@pytest.mark.parametrize(
    "change",
    [
        {"regex": "a"},
        {"whitespace_pattern": " *"},
        {"disable_additional_properties": True},
    ],
)
def test_second_members_and_modifiers_are_refused_not_ignored(change: dict) -> None:
    given = StructuredOutputsParams(json={"type": "integer"})
    for name, value in change.items():
        setattr(given, name, value)
    with pytest.raises(ConflictingConstraint, match="structured_outputs"):
        from_structured_outputs(given)


@pytest.mark.contract("GEN-6")
@pytest.mark.parametrize("given", [{"structural_tag": "{}"}, {"json_object": False}])
def test_members_without_an_exact_meaning_are_refused(given: dict) -> None:
    with pytest.raises(ConflictingConstraint):
        from_structured_outputs(StructuredOutputsParams(**given))


@pytest.mark.contract("REQ-1", "API-2")
def test_constraint_travels_in_the_hosts_field_and_survives_a_clone() -> None:
    constraint = OutputConstraint.json_schema(Point)
    params = SamplingParams(structured_outputs=constraint)
    assert constraint_of(params, "refuse") is constraint
    assert constraint_of(params.clone(), "refuse") is constraint
    assert constraint_of(SamplingParams(), "refuse") is None


@pytest.mark.contract("REQ-1", "API-2")
def test_pydantic_goes_in_and_instances_come_out() -> None:
    assert OutputConstraint.json_schema(Point).parse('{"x":3}') == Point(x=3)
    assert OutputConstraint.json_schema(TypeAdapter(list[Point])).parse('[{"x":3}]') == [Point(x=3)]
    assert OutputConstraint.json_schema({"type": "integer"}).parse("3") == 3
    assert OutputConstraint.regex("a").parse("a") == "a"


@pytest.mark.contract("REQ-1", "CMP-2")
def test_constraint_is_an_immutable_hashable_value() -> None:
    one, same = OutputConstraint.choice(["a", "b", "a"]), OutputConstraint.choice(["a", "b"])
    assert one == same
    assert hash(one) == hash(same)
    assert copy.deepcopy(one) is one
    with pytest.raises(AttributeError):
        one.kind = "regex"  # type: ignore[misc]


@pytest.mark.contract("CHO-4", "ERR-1")
@pytest.mark.parametrize("literals", [[], "abc", ["a", 1], ["\ud800"], 5])
def test_invalid_choices_are_typed(literals: object) -> None:
    with pytest.raises(InvalidChoice):
        OutputConstraint.choice(literals)  # type: ignore[arg-type]


@pytest.mark.contract("REQ-1", "ERR-1")
@pytest.mark.parametrize("schema", [5, object(), {"const": float("nan")}, {"const": object()}])
def test_schemas_without_json_spelling_are_typed(schema: object) -> None:
    with pytest.raises(InvalidSchema):
        OutputConstraint.json_schema(schema)


@pytest.mark.parametrize("text", ["\ud800", 5, None])
def test_texts_that_are_no_unicode_are_typed(text: object) -> None:
    for constructor in (OutputConstraint.grammar, OutputConstraint.regex):
        with pytest.raises(ConstraintError):
            constructor(text)  # type: ignore[arg-type]


class Unspeakable(BaseModel):
    action: Callable[[int], int]


@pytest.mark.contract("REQ-1", "ERR-1")
def test_models_without_a_json_schema_are_typed_and_any_mapping_is_a_schema() -> None:
    with pytest.raises(InvalidSchema, match="pydantic"):
        OutputConstraint.json_schema(Unspeakable)
    proxy = MappingProxyType({"type": "integer"})
    assert OutputConstraint.json_schema(proxy) == OutputConstraint.json_schema({"type": "integer"})


@pytest.mark.contract("REQ-1")
@pytest.mark.parametrize("arguments", [("foo", "x"), ("regex", 5), ("regex", "\ud800")])
def test_constraints_built_by_hand_are_checked_too(arguments: tuple) -> None:
    with pytest.raises(ConstraintError):
        OutputConstraint(*arguments)
