"""Models of the tests on the real engine; each module starts its own engine and ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ninfer_vllm.embedded import build


@pytest.fixture(scope="session")
def tiny() -> Path:
    """The random model with Qwen's vocabulary, which resists every constraint."""
    return build("tiny-qwen3")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The small model that writes English."""
    return build("smollm2")
