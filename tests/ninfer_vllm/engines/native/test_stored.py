"""Tries on disk: found again by content, and never believed when harmed."""

from pathlib import Path

import numpy as np
import pytest

from ninfer_vllm.engines.native import stored
from ninfer_vllm.engines.native.stored import content_key, store_arrays, stored_arrays
from ninfer_vllm.engines.native.trie import STORED_TOKENS, built_trie, trie_of
from ninfer_vllm.vocabulary import TokenClass, Vocabulary


def vocabulary(first: bytes = b"a") -> Vocabulary:
    """Enough tokens for the disk."""
    spellings = (first, *(b"%d" % number for number in range(STORED_TOKENS)), b"<end>")
    classes = bytes([*[TokenClass.ORDINARY] * (len(spellings) - 1), TokenClass.EOS])
    return Vocabulary(spellings, classes, {"<end>": len(spellings) - 1})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tries are kept during a test."""
    monkeypatch.setattr(stored, "code_folder", lambda: tmp_path / "code")
    return tmp_path / "code"


@pytest.mark.contract("TOK-6")
def test_second_process_reads_what_the_first_has_built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trie_of(vocabulary())
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr("ninfer_vllm.engines.native.trie.built_trie", lambda _: pytest.fail("built again"))
    second = trie_of(vocabulary())
    for mine, other in zip(first.arrays, second.arrays, strict=True):
        assert mine.dtype == other.dtype
        assert np.array_equal(mine, other)
        assert other.flags.writeable


@pytest.mark.contract("TOK-6", "CMP-2")
def test_another_spelling_or_class_is_another_key() -> None:
    one = vocabulary()
    classes = bytearray(one.classes)
    classes[3] = TokenClass.UNUSABLE
    moved = Vocabulary((b"a1", b"0", *one.spellings[2:]), one.classes, one.names)
    keys = {
        content_key(found) for found in (one, vocabulary(b"b"), moved, Vocabulary(one.spellings, bytes(classes), {}))
    }
    assert len(keys) == 4


@pytest.mark.parametrize("harm", ["cut", "flipped", "empty", "foreign", "unfinished"])
def test_harmed_file_is_built_anew(folder: Path, harm: str) -> None:
    trie_of(vocabulary())
    (path,) = folder.iterdir()
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    harmed = {"cut": data[:-9], "flipped": bytes(flipped), "empty": b"", "foreign": b"x" * 500, "unfinished": data[:40]}
    path.write_bytes(harmed[harm])
    assert stored_arrays(content_key(vocabulary())) is None
    assert np.array_equal(trie_of(vocabulary()).byte, built_trie(vocabulary()).byte)
    assert path.read_bytes() == data


def test_folder_that_is_a_file_is_no_obstacle(folder: Path) -> None:
    folder.write_text("in the way")
    assert np.array_equal(trie_of(vocabulary()).end, built_trie(vocabulary()).end)


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "code_folder", lambda: None)
    key = content_key(vocabulary())
    store_arrays(key, built_trie(vocabulary()).arrays)
    assert stored_arrays(key) is None
