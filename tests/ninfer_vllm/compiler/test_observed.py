"""What a compiler tells about itself: every request once, every build, what the cache lost and holds."""

from __future__ import annotations

import pytest

from ninfer_vllm.compiler.compiler import Compiler
from ninfer_vllm.compiler.observed import Observed
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.errors import Unsatisfiable
from ninfer_vllm.grammar.ir import Grammar, Token
from ninfer_vllm.grammar.wire import encode
from ninfer_vllm.languages.lowering import lower
from tests.support.vocabularies import byte_vocabulary

VOCABULARY = byte_vocabulary()
UNUSABLE = len(VOCABULARY) - 1


def wire(text: str) -> bytes:
    return encode(lower(OutputConstraint.choice([text])))


@pytest.mark.contract("OBS-3", "CMP-6")
def test_hits_builds_evictions_and_bytes_are_told_once() -> None:
    engine = NativeEngine(VOCABULARY)
    size = Compiler(engine, len(VOCABULARY)).submit("a", wire("a"), "content").result().grammar.nbytes
    compiler = Compiler(engine, len(VOCABULARY), cache_bytes=size + size // 2)
    for key in ("a", "a", "b"):
        compiler.submit(key, wire(key), "content").result()
    seen = compiler.observed()
    assert (seen.outcomes, seen.evictions, len(seen.build_s)) == ({"built": 2, "hit": 1}, 1, 2)
    assert 0 < seen.bytes_change <= size + size // 2
    assert all(seconds > 0 for seconds in seen.build_s)
    assert compiler.observed() == Observed()


@pytest.mark.contract("OBS-3", "CMP-8")
def test_a_build_that_fails_is_told_and_adds_no_bytes() -> None:
    compiler = Compiler(NativeEngine(VOCABULARY), len(VOCABULARY))
    impossible = encode(Grammar({"root": Token((UNUSABLE,))}, "root"))
    with pytest.raises(Unsatisfiable):
        compiler.submit("x", impossible, "content").result()
    seen = compiler.observed()
    assert (seen.outcomes, seen.bytes_change, len(seen.build_s)) == ({"built": 1}, 0, 1)
