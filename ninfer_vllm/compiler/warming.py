"""What nearly every JSON grammar asks of an engine, asked once before the first request does.

Free text and numbers are worked out once a vocabulary and shared by all grammars after that. To cover the free text of
a string takes some four milliseconds, which would be the longest mask of whoever comes first.
"""

from __future__ import annotations

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.protocol import Engine
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import empty_row

EXAMPLES = (
    (
        '{"properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"number"}},"type":"object"}',
        b'{"a":"x","b":12,"c":-1.5e+3,"d":[{"e":true},[null,0,"y"]]}',
    ),
    (
        '{"properties":{"a":{"type":"string"},"b":{"items":{"type":"string"}}},"required":["a"],'
        '"additionalProperties":false,"type":"object"}',
        b'{"a":"x","b":["y","z"]}',
    ),
)
"""Schemas with a text of each: open and closed objects, strings, numbers, lists, and values of every type."""


def warm_up(engine: Engine, vocabulary_size: int) -> None:
    """Have an engine compute the masks along the examples; takes some 60 ms, once a process."""
    row = empty_row(vocabulary_size)
    for schema, text in EXAMPLES:
        matcher = engine.compile(prune(lower(OutputConstraint.json_schema(schema)))).matcher()
        for at in range(len(text)):
            matcher.fill(row)
            matcher.accept_bytes(text[at : at + 1])
            matcher.forget()
