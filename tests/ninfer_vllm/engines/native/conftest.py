"""One engine a vocabulary: what grammars share is part of what is tested."""

import pytest

from ninfer_vllm.engines.native.engine import NativeEngine
from tests.support.grammars import word_vocabulary
from tests.support.vocabularies import byte_vocabulary
from tests.support.wide_grammars import wide_vocabulary


@pytest.fixture(scope="session")
def native() -> NativeEngine:
    """An engine over `tests.support.grammars.WORDS`."""
    return NativeEngine(word_vocabulary())


@pytest.fixture(scope="session")
def wide() -> NativeEngine:
    """An engine over `tests.support.wide_grammars.WORDS`."""
    return NativeEngine(wide_vocabulary())


@pytest.fixture(scope="session")
def octets_native() -> NativeEngine:
    """An engine over `tests.support.vocabularies.byte_vocabulary`."""
    return NativeEngine(byte_vocabulary())
