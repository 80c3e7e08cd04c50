"""The guide's white space: any amount of it at the structural places of JSON and at both ends (GDE-6)."""

from __future__ import annotations

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.grammar.ir import Chars, Grammar, Repeat, Rule, sequence
from ninfer_vllm.languages.json_schema.tokens import FLEXIBLE

ANY_SPACE = Repeat(Chars(CharSet.from_chars(" \t\r\n")), 0, None)
DOCUMENT = "document"
"""The root of a grammar with white space at its ends; rules of a lowered schema have other names."""


def with_any_space(grammar: Grammar) -> Grammar:
    """A JSON grammar that was lowered with flexible white space, its bound lifted and the document's ends opened.

    A run of white space never stops finishing: it lowers no distance, so a finishing step does not choose it.
    """
    assert isinstance(FLEXIBLE.space, Rule)
    body = sequence(FLEXIBLE.space, Rule(grammar.root), FLEXIBLE.space)
    return Grammar({DOCUMENT: body, **grammar.rules, FLEXIBLE.space.name: ANY_SPACE}, DOCUMENT)
