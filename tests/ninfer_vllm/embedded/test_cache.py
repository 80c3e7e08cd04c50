"""A built folder appears whole, once, whoever else builds it."""

import threading
from pathlib import Path

import pytest

from ninfer_vllm.embedded.cache import build_folder, cache_folder
from ninfer_vllm.embedded.errors import ModelBuildError


def write_a(folder: Path) -> None:
    (folder / "a").write_text("whole")


def refuse(folder: Path) -> None:
    raise AssertionError(f"{folder} must not be written")


def test_cache_folder_is_the_products_own_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NINFER_CACHE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == tmp_path


@pytest.mark.parametrize(
    ("shared", "expected"),
    [("/shared", "/shared/ninfer"), ("relative", "/home/u/.cache/ninfer"), ("", "/home/u/.cache/ninfer")],
)
def test_cache_folder_follows_the_base_directories(monkeypatch: pytest.MonkeyPatch, shared: str, expected: str) -> None:
    monkeypatch.delenv("NINFER_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("XDG_CACHE_HOME", shared)
    assert cache_folder() == Path(expected)


def test_folder_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x-1"
    assert build_folder(path, ("a",), write_a, print)
    assert not build_folder(path, ("a",), refuse, print)
    assert (path / "a").read_text() == "whole"


def test_failed_write_leaves_no_folder(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_a(folder)
        raise KeyError

    with pytest.raises(KeyError):
        build_folder(tmp_path / "x-1", ("a",), fail, print)
    assert [path.name for path in tmp_path.iterdir()] == [".x-1.lock"]


def test_folder_is_made_again_when_a_file_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "x-1"
    path.mkdir()
    (path / "stray").touch()
    assert build_folder(path, ("a",), write_a, print)
    assert [file.name for file in path.iterdir()] == ["a"]


def test_rest_of_a_killed_build_is_removed(tmp_path: Path) -> None:
    rest = tmp_path / ".x-1.partial"
    rest.mkdir()
    (rest / "half").touch()
    build_folder(tmp_path / "x-1", ("a",), write_a, print)
    assert [file.name for file in (tmp_path / "x-1").iterdir()] == ["a"]


def test_second_writer_waits_and_finds_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "x-1"
    writing, waiting = threading.Event(), threading.Event()
    waited: list[str] = []

    def write_when_the_other_waits(folder: Path) -> None:
        writing.set()
        assert waiting.wait(timeout=30)
        write_a(folder)

    def note(line: str) -> None:
        waited.append(line)
        waiting.set()

    first = threading.Thread(target=build_folder, args=(path, ("a",), write_when_the_other_waits, print))
    first.start()
    assert writing.wait(timeout=30)
    assert not build_folder(path, ("a",), refuse, note)
    first.join()
    assert waited == ["waiting: another process is making x-1"]


def test_refusing_file_system_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelBuildError, match=r"file.*; set NINFER_CACHE"):
        build_folder(tmp_path / "file" / "x-1", ("a",), write_a, print)
