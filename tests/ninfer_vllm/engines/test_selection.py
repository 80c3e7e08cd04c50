"""Which engine runs a grammar."""

from collections.abc import Iterator

import pytest

from ninfer_vllm.engines.protocol import Engine
from ninfer_vllm.engines.selection import SelectingEngine, engine_for
from ninfer_vllm.errors import Unsatisfiable
from ninfer_vllm.grammar.ir import NOTHING, Alternation, Grammar, Literal, Rule, Sequence
from tests.support.vocabularies import byte_vocabulary

LEFT = Alternation((Sequence((Rule("a"), Literal(b"a"))), Literal(b"a")))
LEFT_RECURSIVE = Grammar({"root": Rule("a"), "a": LEFT}, "root")


@pytest.fixture(scope="module")
def selecting() -> Iterator[Engine]:
    engine = engine_for("native", byte_vocabulary())
    yield engine
    engine.close()


def test_native_runs_what_it_takes(selecting: Engine) -> None:
    assert selecting.name == "native"
    assert selecting.compile(Grammar({"root": Literal(b"a")}, "root")).engine == "native"


@pytest.mark.contract("OBS-1")
def test_left_recursion_runs_on_xgrammar_and_the_record_says_so(selecting: Engine) -> None:
    compiled = selecting.compile(LEFT_RECURSIVE)
    assert compiled.engine == "xgrammar"
    matcher = compiled.matcher()
    assert matcher.accept_bytes(b"aaa") == 3
    assert matcher.complete


def test_other_refusals_are_not_tried_again(selecting: Engine) -> None:
    with pytest.raises(Unsatisfiable):
        selecting.compile(Grammar({"root": NOTHING}, "root"))


def test_xgrammar_can_be_chosen() -> None:
    engine = engine_for("xgrammar", byte_vocabulary())
    assert engine.name == "xgrammar"
    assert not isinstance(engine, SelectingEngine)
    engine.close()
