"""The built models, and a cold cache that needs no network."""

import os
from pathlib import Path

import pytest

from ninfer_vllm import embedded
from ninfer_vllm.embedded import qwen_tokenizer, registry, smollm2
from ninfer_vllm.embedded.registry import PackagedFile


@pytest.fixture(autouse=True, scope="session")
def _no_hub() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The SmolLM2 model in the user's cache."""
    return embedded.build("smollm2")


@pytest.fixture(scope="session")
def tiny_qwen3_folder() -> Path:
    """The random model in the user's cache."""
    return embedded.build("tiny-qwen3")


@pytest.fixture(scope="session")
def gguf_file() -> Path:
    """The GGUF file that SmolLM2 is made from."""
    return registry.fetch(smollm2.SOURCE, print)


@pytest.fixture(scope="session")
def ranks_file() -> Path:
    """The tiktoken file that Qwen's vocabulary is made from."""
    return registry.fetch(qwen_tokenizer.SOURCE, print)


@pytest.fixture
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gguf_file: Path, ranks_file: Path) -> Path:
    """An empty cache but for the downloads, selected by the environment."""
    for source, file in ((smollm2.SOURCE, gguf_file), (qwen_tokenizer.SOURCE, ranks_file)):
        _place(source, file, tmp_path)
    monkeypatch.setenv("NINFER_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path


def _place(source: PackagedFile, file: Path, cache: Path) -> None:
    folder = cache / "downloads" / source.requirement
    folder.mkdir(parents=True)
    (folder / source.file_name).symlink_to(file)
