"""JSON Schema and JSON object: from schema text to a grammar, exactly or refused (contract JSO to JSC)."""

from __future__ import annotations

from ninfer_vllm.constraint import JsonOptions
from ninfer_vllm.errors import ConflictingConstraint, ConstraintError
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.languages.json_schema.emptiness import blame, inhabited_keys
from ninfer_vllm.languages.json_schema.intersect import Reducer
from ninfer_vllm.languages.json_schema.lower import Lowering
from ninfer_vllm.languages.json_schema.parse import parse_schema

__all__ = ["lower_json_object", "lower_json_schema", "problems"]


def lower_json_schema(text: str, options: JsonOptions) -> Grammar:
    """The JSON values that a schema admits, in their canonical spelling.

    Errors: MalformedSchemaText, InvalidSchema, UnsupportedSchema, Unsatisfiable or LimitExceeded, with the JSON
    Pointer in the schema's own document; ConflictingConstraint for an option that is not supported.
    """
    _check_options(options)
    schema, found = parse_schema(text, options)
    if found:
        raise found[0]
    reducer = Reducer(schema)
    inhabited = inhabited_keys(reducer)
    if reducer.root not in inhabited:
        raise blame(reducer, inhabited)
    return Lowering(options).schema(reducer, inhabited)


def lower_json_object(options: JsonOptions) -> Grammar:
    """Every JSON text whose root is an object (JSO-1)."""
    _check_options(options)
    return Lowering(options).any_object()


def problems(text: str, options: JsonOptions) -> list[ConstraintError]:
    """Every reason for which the schema would be refused, in reading order; none at all where it is accepted."""
    try:
        _, found = parse_schema(text, options)
        if not found:
            lower_json_schema(text, options)
    except ConstraintError as problem:
        return [problem]
    return found


def _check_options(options: JsonOptions) -> None:
    if options.property_order == "any":
        raise ConflictingConstraint("property_order", "any is not supported: properties are written in declared order")
