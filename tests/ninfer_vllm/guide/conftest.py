"""A real vocabulary, built once: Qwen3's ranks with one end-of-sequence token."""

import pytest

from ninfer_vllm.embedded import qwen_tokenizer, registry
from ninfer_vllm.guide import plain_vocabulary
from ninfer_vllm.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def qwen() -> Vocabulary:
    """151,643 ordinary tokens and the end."""
    ranks = qwen_tokenizer.read_ranks(registry.fetch(qwen_tokenizer.SOURCE, print))
    spellings = sorted(ranks, key=ranks.__getitem__)
    return plain_vocabulary([*spellings, b""], [len(spellings)])
