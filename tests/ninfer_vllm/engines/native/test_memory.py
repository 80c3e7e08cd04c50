"""Memory of a long output: it depends on the grammar, not on how much was written."""

import random
from pathlib import Path

import numpy as np
import pytest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import is_legal
from tests.support.vocabularies import byte_vocabulary

NUM_TOKENS = 100_000
WARM = 20_000
"""Tokens after which everything that a text of this grammar meets has been met."""

NOISE_BYTES = 8 << 20
"""What the allocator may keep for itself."""

ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "count": {"type": "integer"},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "count", "ok"],
    "additionalProperties": False,
}


def resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def items(rng: random.Random) -> bytes:
    """One more item of the array, with a comma behind it."""
    name = "".join(rng.choice("abc éß海\U0001f600") for _ in range(rng.randrange(40)))
    return f'{{"name":"{name}","count":{rng.randrange(-(10**9), 10**9)},"ok":true}},'.encode()


@pytest.mark.slow
@pytest.mark.contract("SES-6", "PRF-4", "MSK-8")
def test_memory_is_flat_over_a_hundred_thousand_tokens() -> None:
    engine = NativeEngine(byte_vocabulary())
    compiled = engine.compile(lower(OutputConstraint.json_schema({"type": "array", "items": ITEM})))
    matcher, row, rng = compiled.matcher(), np.zeros(byte_vocabulary().words, np.int32), random.Random(3)
    text = bytearray(b"[")
    before = 0
    for at in range(NUM_TOKENS):
        if not text:
            text.extend(items(rng))
        assert matcher.fill(row)
        token = text.pop(0)
        assert is_legal(row, token)
        assert matcher.accept(token)
        matcher.forget()
        if at == WARM:
            before = resident()
            states = len(compiled.current().automaton.configs)
    assert resident() - before < NOISE_BYTES
    assert len(compiled.current().automaton.configs) < 1.2 * states
