"""Everyday pydantic models: what is generated validates, what validates is accepted, and grammars stay small."""

from __future__ import annotations

import json
import random
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import UnsupportedSchema
from ninfer_vllm.grammar.checks import count_nodes
from ninfer_vllm.grammar.ir import Grammar, Regular
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.json_schema import lower_json_schema
from tests.support.oracles.recogniser import Recogniser


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Address(BaseModel):
    model_config = ConfigDict(extra="forbid")
    street: str = Field(min_length=1, max_length=40, description="Street and number")
    code: Annotated[str, Field(min_length=5, max_length=5)]


class Person(BaseModel):
    """Someone."""

    name: str
    age: int = Field(ge=0, le=150)
    height: float = Field(gt=0, lt=3)
    email: str | None = None
    colour: Colour = Colour.RED
    kind: Literal["a", "b", 3] = "a"
    address: Address
    tags: list[str] = Field(default_factory=list, max_length=3)
    scores: dict[str, int] = {}
    point: tuple[int, float, bool] = (0, 0.0, False)


class Cat(BaseModel):
    species: Literal["cat"]
    lives: Annotated[int, Field(gt=0, lt=10)]


class Dog(BaseModel):
    species: Literal["dog"]
    name: str


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="species")]
    others: list[Cat | Dog] = []


class Tree(BaseModel):
    value: int | float
    children: list[Tree] = Field(default=[], max_length=2)
    parent: Tree | None = None


class Anything(BaseModel):
    data: Any
    mapping: dict[str, list[dict[str, float]]]
    flags: set[bool] | None = None


EXAMPLES: list[tuple[Any, Any]] = [
    (Person, Person(name="é\n", age=1, height=1.75, address=Address(street="x", code="12345"), scores={"a": -1})),
    (Owner, Owner(pet=Dog(species="dog", name='"'), others=[Cat(species="cat", lives=9)])),
    (Tree, Tree(value=1.5, children=[Tree(value=2), Tree(value=-1, parent=Tree(value=0))])),
    (TypeAdapter(list[Address]), [Address(street="x", code="abcde")]),
    (TypeAdapter(int | str | None), 5),
    (TypeAdapter(dict[str, tuple[int, ...]]), {"a": (1, 2)}),
    (TypeAdapter(Literal["x", "y"]), "y"),
]


def lowered(source: Any) -> Grammar:
    constraint = OutputConstraint.json_schema(source)
    return lower_json_schema(constraint.source, constraint.options)


@pytest.mark.contract("REQ-1", "JSO-2", "JSD-6")
@pytest.mark.parametrize(("source", "value"), EXAMPLES, ids=str)
def test_instance_is_accepted(source: Any, value: Any) -> None:
    adapter = source if isinstance(source, TypeAdapter) else TypeAdapter(source)
    assert Recogniser(lowered(source)).accepts(adapter.dump_json(value))


@pytest.mark.contract("REQ-1", "JSC-2", "JST-6", "JSC-4")
@pytest.mark.parametrize("source", [source for source, _ in EXAMPLES], ids=str)
def test_samples_validate(source: Any) -> None:
    constraint = OutputConstraint.json_schema(source)
    grammar = lowered(source)
    for seed in range(60):
        text = sample(grammar, random.Random(seed), 120).decode()
        constraint.parse(text)


def test_optional_and_default_members_may_be_absent() -> None:
    recogniser = Recogniser(lowered(Person))
    required = {"name": "x", "age": 0, "height": 1, "address": {"street": "x", "code": "12345"}}
    assert recogniser.accepts(json.dumps(required, separators=(",", ":")))
    assert recogniser.accepts(json.dumps({**required, "extra": [1]}, separators=(",", ":")))
    for name in required:
        rest = {other: value for other, value in required.items() if other != name}
        assert not recogniser.accepts(json.dumps(rest, separators=(",", ":"))), name


@pytest.mark.contract("JSX-4")
def test_set_of_few_values_has_each_at_most_once() -> None:
    recogniser = Recogniser(lowered(Anything))
    for flags in ("[]", "[true]", "[false,true]", "null"):
        assert recogniser.accepts(f'{{"data":1,"mapping":{{}},"flags":{flags}}}')
    for flags in ("[true,true]", "[false,true,false]", "[1]"):
        assert not recogniser.accepts(f'{{"data":1,"mapping":{{}},"flags":{flags}}}')


@pytest.mark.contract("JSX-4")
def test_set_of_many_values_is_refused() -> None:
    constraint = OutputConstraint.json_schema(TypeAdapter(set[str]))
    with pytest.raises(UnsupportedSchema) as caught:
        lower_json_schema(constraint.source, constraint.options)
    assert caught.value.pointer == "/uniqueItems"


def test_grammar_of_an_everyday_model_is_small() -> None:
    grammar = lowered(Person)
    automata = [rule for rule in grammar.rules.values() if isinstance(rule, Regular)]
    assert len(grammar.rules) <= 30
    assert sum(len(rule.automaton.edges) for rule in automata) <= 700
    assert count_nodes(grammar) <= 3_000
