"""What an engine works out before its first request: free text is known behind it, and no mask changes."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest

from ninfer_vllm.compiler.warming import EXAMPLES, warm_up
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.languages.lowering import lower
from tests.support.vocabularies import byte_vocabulary

SCHEMA = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}})
TEXT = b'{"id":-17,"name":"some\\n text","other":2.5e-3}'


@pytest.mark.parametrize(("schema", "text"), EXAMPLES)
def test_examples_are_members_of_their_schemas(schema: str, text: bytes) -> None:
    jsonschema.validate(json.loads(text), json.loads(schema))
    engine = NativeEngine(byte_vocabulary())
    matcher = engine.compile(prune(lower(OutputConstraint.json_schema(schema)))).matcher()
    assert matcher.accept_bytes(text) == len(text)
    assert matcher.complete


@pytest.mark.contract("PRF-1")
def test_free_text_of_a_new_grammar_is_known_after_it_and_masks_are_the_same() -> None:
    vocabulary = byte_vocabulary()
    fresh, warm = NativeEngine(vocabulary), NativeEngine(vocabulary)
    warm_up(warm, len(vocabulary))
    grammar = prune(lower(OutputConstraint.json_schema(SCHEMA)))
    known = bytes_of_units(warm)
    assert known > 0
    rows = np.zeros((2, vocabulary.words), np.int32)
    matchers = [engine.compile(grammar).matcher() for engine in (fresh, warm)]
    for at in range(len(TEXT)):
        for matcher, row in zip(matchers, rows, strict=True):
            matcher.fill(row)
            assert matcher.accept_bytes(TEXT[at : at + 1]) == 1
        assert (rows[0] == rows[1]).all()
    assert bytes_of_units(fresh) > bytes_of_units(warm) - known


def bytes_of_units(engine: NativeEngine) -> int:
    return engine._shared().units.nbytes
