"""Formats are what their RFCs say: every sample satisfies the validator's format checker, where it knows the format."""

from __future__ import annotations

import random

import pytest
from jsonschema import Draft202012Validator

from ninfer_vllm.automata.questions import includes
from ninfer_vllm.grammar.ir import Grammar, Regular
from ninfer_vllm.grammar.sample import sample
from ninfer_vllm.languages.json_schema.formats import EXPRESSIONS, HOST_CHARS, LABEL_CHARS, text_automaton

# The checker of the validator reads these otherwise: it knows no characters beyond U+FFFF, no escapes in the variable
# names of templates, and only the first digit of a relative pointer.
READ_OTHERWISE = ("iri", "iri-reference", "uri-template", "relative-json-pointer")
CHECKER = Draft202012Validator.FORMAT_CHECKER


@pytest.mark.contract("JSX-1")
@pytest.mark.parametrize("name", [name for name in EXPRESSIONS if name not in READ_OTHERWISE])
def test_samples_satisfy_the_format_checker(name: str) -> None:
    if name not in CHECKER.checkers:
        pytest.skip(f"the validator has no check of {name}: its optional packages are not installed")
    grammar = Grammar({"root": Regular(text_automaton(name))}, "root")
    rng = random.Random(1)
    texts = [sample(grammar, rng, 60).decode() for _ in range(100)]
    assert [text for text in texts if not CHECKER.conforms(text, name)] == []


@pytest.mark.contract("JSX-1")
def test_host_name_has_limits_a_label_and_altogether() -> None:
    automaton = text_automaton("hostname")
    longest = ".".join(["a" * LABEL_CHARS] * 3 + ["a" * (HOST_CHARS - 3 * (LABEL_CHARS + 1))])
    assert automaton.accepts(longest)
    assert not automaton.accepts(longest + "a")
    assert not automaton.accepts("a" * (LABEL_CHARS + 1))


def test_references_include_what_is_absolute() -> None:
    assert includes(text_automaton("uri-reference"), text_automaton("uri"))
    assert includes(text_automaton("iri"), text_automaton("uri"))
