"""The jobs of the first light demo: what is asked, under which constraint, and who judges the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import jsonschema
from pydantic import BaseModel, ConfigDict, Field

from ninfer_vllm import OutputConstraint

SENTENCES = (
    "Maria Silva, 34, teaches physics in Porto.",
    "Last spring Kenji Watanabe moved to Osaka; he had just turned 61.",
    "At nineteen, Aïcha Benali opened a bakery in Lyon.",
    "Our plumber is called Tom Becker, is 45 years old and lives in Bremen.",
    "Eighty-year-old Ruth Cohen still swims every morning in Haifa.",
    "Diego Torres (27) drives a tram through Montevideo.",
)
REVIEWS = (
    "Best headphones I ever had.",
    "Broke after two days. Never again.",
    "The soup was cold and the waiter was rude.",
    "What a lovely little hotel, we will come back!",
    "Fast delivery, works as described.",
    "The film is three hours long and nothing happens.",
    "I laughed until I cried. Wonderful book.",
    "It leaks. I want my money back.",
)
SENTIMENTS = ("positive", "negative")
DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
RECIPE = r"""
# A recipe card: a title, three to five ingredients, and two numbered steps.
root       ::= "# " words "\n\n" ingredient{3,5} "\n1. " sentence "\n2. " sentence "\n"
ingredient ::= "- " [1-9] [0-9]{0,2} " " ("g" | "ml" | "pieces") " " words "\n"
sentence   ::= [A-Z] [a-z ]{10,40} "."
words      ::= [A-Za-z] [a-z]{2,11} (" " [a-z]{3,12}){0,2}
"""
RECIPE_AS_RE = re.compile(
    r"# [A-Za-z][a-z]{2,11}( [a-z]{3,12}){0,2}\n\n"
    r"(- [1-9][0-9]{0,2} (g|ml|pieces) [A-Za-z][a-z]{2,11}( [a-z]{3,12}){0,2}\n){3,5}"
    r"\n1\. [A-Z][a-z ]{10,40}\.\n2\. [A-Z][a-z ]{10,40}\.\n"
)


class Person(BaseModel):
    """What every sentence says about somebody, and nothing else."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(max_length=40)]
    age: Annotated[int, Field(ge=0, le=120)]
    city: Annotated[str, Field(max_length=40)]


@dataclass(frozen=True)
class Job:
    """One kind of work: prompts that share a constraint, and the authority that judges the answers."""

    title: str
    instruction: str
    prompts: tuple[str, ...]
    constraint: OutputConstraint
    http: dict[str, Any]
    """The same constraint as fields of a request to the server."""
    judge: Callable[[str], str]
    """Returns the answer as it is shown; raises if it is not what was asked for."""
    judged_by: str
    samples: tuple[tuple[str, str], ...] = ()
    """Questions with good answers, shown to the model first."""

    def messages(self, prompt: str) -> list[dict[str, str]]:
        """The chat that asks for one answer."""
        turns = [("system", self.instruction)]
        for question, answer in self.samples:
            turns += [("user", question), ("assistant", answer)]
        return [{"role": role, "content": content} for role, content in (*turns, ("user", prompt))]


def judge_person(text: str) -> str:
    """A person by pydantic, and once more by jsonschema."""
    jsonschema.validate(json.loads(text), Person.model_json_schema())
    return repr(PERSON.parse(text))


def judge_sentiment(text: str) -> str:
    """One of the two words."""
    assert text in SENTIMENTS, text
    return text


def judge_date(text: str) -> str:
    """A whole match of the standard library's `re`."""
    assert re.fullmatch(DATE, text), text
    return text


def judge_recipe(text: str) -> str:
    """The grammar, written a second time for the standard library's `re`."""
    assert RECIPE_AS_RE.fullmatch(text), text
    return text


PERSON = OutputConstraint.json_schema(Person)
JOBS = (
    Job(
        "Six people out of six sentences (JSON Schema of a pydantic model)",
        "Extract the person from the sentence as JSON with name, age and city.",
        SENTENCES,
        PERSON,
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "person", "schema": Person.model_json_schema()},
            }
        },
        judge_person,
        "pydantic and jsonschema",
        samples=(
            ("Anna Berg is a nurse of 52 years from Oslo.", '{"name":"Anna Berg","age":52,"city":"Oslo"}'),
            ("In Rome, Luca Conti (38) repairs violins.", '{"name":"Luca Conti","age":38,"city":"Rome"}'),
        ),
    ),
    Job(
        "Eight reviews (choice)",
        "Say whether the review is positive or negative. Answer with one word.",
        REVIEWS,
        OutputConstraint.choice(SENTIMENTS),
        {"extra_body": {"structured_outputs": {"choice": list(SENTIMENTS)}}},
        judge_sentiment,
        "membership",
        samples=(
            ("I love it, thank you!", "positive"),
            ("Terrible quality, a waste of money.", "negative"),
            ("The room was dirty and loud.", "negative"),
            ("Works perfectly.", "positive"),
        ),
    ),
    Job(
        "One ISO date (regex)",
        "Answer with a date such as 2001-12-31.",
        ("On which day did people first walk on the Moon?",),
        OutputConstraint.regex(DATE),
        {"extra_body": {"structured_outputs": {"regex": DATE}}},
        judge_date,
        "re",
    ),
    Job(
        "One recipe card (GBNF)",
        "Write a recipe card.",
        ("Pancakes for four people.",),
        OutputConstraint.grammar(RECIPE),
        {"extra_body": {"structured_outputs": {"grammar": RECIPE}}},
        judge_recipe,
        "re",
        samples=(
            (
                "Tomato soup for two people.",
                "# Tomato soup\n\n- 500 g tomatoes\n- 1 pieces onion\n- 300 ml water\n\n"
                "1. Cook everything until soft.\n2. Blend it and serve it hot.\n",
            ),
        ),
    ),
)


@dataclass(frozen=True)
class Refusal:
    """A request that must be answered with 400, and what the answer must say."""

    title: str
    http: dict[str, Any]
    code: str
    param: str
    place: dict[str, Any]


REFUSALS = (
    Refusal(
        "a schema with a keyword that is not enforced",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "order",
                    "schema": {"type": "object", "properties": {"ids": {"type": "array", "uniqueItems": True}}},
                },
            }
        },
        "unsupported_schema",
        "response_format/json_schema/schema/properties/ids/uniqueItems",
        {"pointer": "/properties/ids/uniqueItems"},
    ),
    Refusal(
        "a regex with look-around",
        {"extra_body": {"structured_outputs": {"regex": "[0-9]+(?= EUR)"}}},
        "invalid_regex",
        "structured_outputs/regex",
        {"offset": 6},
    ),
    Refusal(
        "a grammar with a rule that does not exist",
        {"extra_body": {"structured_outputs": {"grammar": 'root ::= greeting "!"\ngreeting ::= "hello " nam'}}},
        "invalid_grammar",
        "structured_outputs/grammar",
        {"line": 2, "column": 23},
    ),
)
