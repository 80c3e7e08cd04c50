"""The cache folder: where built folders lie, and how one appears there whole or not at all.

Theory of operation. A built folder has its recipe's version in its name and is written under another name beside its
place, then renamed: whoever sees the folder sees all of it. An advisory lock on a file beside it admits one writer, so
a second process waits and then finds the folder there. The kernel drops the lock of a process that dies; what it left
half-written is removed by the next writer.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ninfer_vllm.embedded.errors import ModelBuildError

Progress = Callable[[str], None]

CACHE_REMEDY = "set NINFER_CACHE to a folder that can be written and has 1 GB free"


def cache_folder() -> Path:
    """The cache folder: $NINFER_CACHE, else ninfer under $XDG_CACHE_HOME, else ~/.cache/ninfer."""
    own = os.environ.get("NINFER_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    # The XDG base directory specification tells programs to ignore a relative path.
    if shared and os.path.isabs(shared):
        return Path(shared) / "ninfer"
    return Path.home() / ".cache" / "ninfer"


def build_folder(path: Path, files: tuple[str, ...], write: Callable[[Path], None], progress: Progress) -> bool:
    """Make the folder `path` by `write`, unless it holds all of `files`; say whether it was made now.

    Effects:  creates `path` by one rename, parents too; waits while another process makes the same folder.
    Errors:   ModelBuildError if the file system refuses; whatever `write` raises. `path` is then absent.
    """
    if _is_complete(path, files):
        return False
    with refusing_file_system(path.name), exclusive(path, progress):
        if _is_complete(path, files):
            return False
        partial = path.with_name(f".{path.name}.partial")
        _remove(partial)
        partial.mkdir()
        try:
            write(partial)
            _remove(path)
            partial.rename(path)
        finally:
            _remove(partial)
    return True


@contextmanager
def exclusive(path: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock that belongs to `path`, waiting for it where another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The lock file stays: removing it would let two processes lock two files of one name.
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting: another process is making {path.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def refusing_file_system(subject: str) -> Iterator[None]:
    """Turn a refusal of the file system into a ModelBuildError about `subject`."""
    try:
        yield
    except OSError as error:
        raise ModelBuildError(subject, str(error), CACHE_REMEDY) from error


def _is_complete(path: Path, files: tuple[str, ...]) -> bool:
    return all((path / name).is_file() for name in files)


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
