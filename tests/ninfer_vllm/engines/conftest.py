"""One engine a vocabulary for the whole session: each keeps a compile process."""

from collections.abc import Iterator

import pytest

from ninfer_vllm.engines.xgrammar import XgrammarEngine
from tests.support.grammars import word_vocabulary
from tests.support.vocabularies import byte_vocabulary


@pytest.fixture(scope="session")
def words() -> Iterator[XgrammarEngine]:
    """An engine over `tests.support.grammars.WORDS`."""
    engine = XgrammarEngine(word_vocabulary())
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def octets() -> Iterator[XgrammarEngine]:
    """An engine over `tests.support.vocabularies.byte_vocabulary`."""
    engine = XgrammarEngine(byte_vocabulary())
    yield engine
    engine.close()
