"""JSON Schema and JSON object: from schema text to a grammar, exactly or refused (contract JSO to JSC)."""

from __future__ import annotations

from ninfer_vllm.automata.work import budget
from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConstraintError, Unsatisfiable
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.languages.json_schema.description import Part, described
from ninfer_vllm.languages.json_schema.emptiness import blame, inhabited_keys
from ninfer_vllm.languages.json_schema.intersect import Reducer
from ninfer_vllm.languages.json_schema.located import located
from ninfer_vllm.languages.json_schema.lower import Lowering
from ninfer_vllm.languages.json_schema.parse import ROOT, parse_schema
from ninfer_vllm.languages.json_schema.refusals import Collected, Report, at_once
from ninfer_vllm.languages.json_schema.schema import Schema
from ninfer_vllm.languages.json_schema.shapes import Key
from ninfer_vllm.languages.json_schema.tokens import COMPACT, FLEXIBLE, Tokens
from ninfer_vllm.limits import PREPARATION_STEPS

__all__ = ["description", "lower_json_object", "lower_json_schema", "problems"]


def lower_json_schema(text: str, options: JsonOptions) -> Grammar:
    """The JSON values that a schema admits, in their canonical spelling.

    Errors: MalformedSchemaText, InvalidSchema, UnsupportedSchema, Unsatisfiable or LimitExceeded, with the JSON
    Pointer in the schema's own document.
    """
    with budget(PREPARATION_STEPS):
        schema, found = parse_schema(text, options)
        if found:
            raise found[0]
        return _lowered(schema, options, at_once)


def lower_json_object(options: JsonOptions) -> Grammar:
    """Every JSON text whose root is an object (JSO-1)."""
    return Lowering(_tokens(options)).any_object()


def problems(text: str, options: JsonOptions) -> list[ConstraintError]:
    """Every reason for which the schema would be refused, at most `MAX_PROBLEMS`; none at all where it is accepted.

    Those of keywords come first, in reading order, then those of what the keywords say together. What is refused says
    nothing to the rest, which is therefore called unsatisfiable only where nothing else was refused.
    """
    collected = Collected()
    try:
        with budget(PREPARATION_STEPS):
            schema, found = parse_schema(text, options)
            for problem in found:
                collected(problem)
            _lowered(schema, options, collected)
    except Unsatisfiable as problem:
        if not collected.problems:
            collected.add(problem)
    except ConstraintError as problem:
        collected.add(problem)
    return collected.problems


def description(text: str, options: JsonOptions) -> list[Part]:
    """The reduced schema, part by part.

    Errors: as `lower_json_schema`, but for what only writing the grammar finds.
    """
    with budget(PREPARATION_STEPS):
        schema, found = parse_schema(text, options)
        if found:
            raise found[0]
        with located(ROOT):
            reducer = Reducer(schema)
            return list(described(reducer, _inhabited(reducer)))


def _lowered(schema: Schema, options: JsonOptions, report: Report) -> Grammar:
    with located(ROOT):
        reducer = Reducer(schema, report)
        return Lowering(_tokens(options), report, options.property_order).schema(reducer, _inhabited(reducer))


def _inhabited(reducer: Reducer) -> frozenset[Key]:
    """The keys that have a value, the root among them."""
    inhabited = inhabited_keys(reducer)
    if reducer.root not in inhabited:
        raise blame(reducer, inhabited)
    return inhabited


def _tokens(options: JsonOptions) -> Tokens:
    return FLEXIBLE if options.whitespace == "flexible" else COMPACT
