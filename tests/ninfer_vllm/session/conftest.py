"""Sessions over the real xgrammar engine and a byte vocabulary."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ninfer_vllm.constraint import Frame, OutputConstraint
from ninfer_vllm.engines.xgrammar import XgrammarEngine
from ninfer_vllm.grammar.framing import framed
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import MaskRow
from ninfer_vllm.session.phases import ThinkingRules
from ninfer_vllm.session.session import OutputSession
from ninfer_vllm.vocabulary import Vocabulary
from tests.support.vocabularies import END_THINK, THINK, byte_vocabulary

Opener = Callable[..., OutputSession]


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return byte_vocabulary()


@pytest.fixture(scope="session")
def engine(vocabulary: Vocabulary) -> XgrammarEngine:
    return XgrammarEngine(vocabulary)


@pytest.fixture(scope="session")
def rules(vocabulary: Vocabulary) -> ThinkingRules:
    return ThinkingRules.of(vocabulary, THINK, END_THINK)


@pytest.fixture
def open_session(engine: XgrammarEngine, rules: ThinkingRules) -> Opener:
    def opened(constraint: OutputConstraint, frame: Frame = "content") -> OutputSession:
        session = OutputSession(constraint.kind, engine.name, frame)
        session.attach(engine.compile(framed(lower(constraint), frame)), "built", None if frame == "content" else rules)
        return session

    return opened


@pytest.fixture
def new_rows(vocabulary: Vocabulary) -> Callable[[int], list[MaskRow]]:
    return lambda count: list(np.zeros((count, vocabulary.words), dtype=np.int32))
