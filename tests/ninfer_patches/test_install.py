"""Verification and binding: all seams or none, on copies of the real host's sources."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
import vllm
from ninfer_patches import sources, versions
from ninfer_patches.install import _rebind, verify
from ninfer_patches.ledger import ledger
from ninfer_patches.patch import split
from ninfer_patches.post_import import PostImportHooks
from ninfer_patches.registry import ALL

from ninfer_vllm.errors import PatchDrift, UnsupportedHost

HOST = Path(next(iter(vllm.__path__)))
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def copied_host(tmp_path: Path) -> Path:
    """The files of every seam, copied so that a test can change them."""
    for patch in ALL:
        parts = split(patch.definition)[0].split(".")[1:]
        for relative in (Path(*parts).with_suffix(".py"), Path(*parts, "__init__.py")):
            if (HOST / relative).is_file():
                (tmp_path / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(HOST / relative, tmp_path / relative)
    return tmp_path


@pytest.mark.contract("ENG-5")
def test_installed_host_is_as_recorded() -> None:
    verify(ALL, vllm.__version__, HOST)


@pytest.mark.contract("ENG-5")
@pytest.mark.parametrize("version", ["0.31.2", "0.34.0", "1.0.0", "dev"])
def test_unknown_version_stops_with_the_supported_ones(version: str) -> None:
    with pytest.raises(UnsupportedHost, match=r"0\.32\.x, 0\.33\.x") as refusal:
        verify(ALL, version, HOST)
    assert version in str(refusal.value)


@pytest.mark.contract("ENG-5")
@pytest.mark.parametrize("patch", ALL, ids=lambda patch: patch.target)
def test_one_changed_line_of_any_seam_stops_with_its_name(patch, copied_host: Path) -> None:
    verify([patch], vllm.__version__, copied_host)
    module, name = split(patch.definition)
    file = sources._file_of(module, copied_host)
    first = sources._find(file, name).body[0]
    lines = file.read_text().splitlines()
    lines.insert(first.lineno - 1, " " * first.col_offset + "# drifted")
    file.write_text("\n".join(lines))
    _forget_files()
    with pytest.raises(PatchDrift, match=name):
        verify([patch], vllm.__version__, copied_host)


@pytest.mark.contract("ENG-5")
def test_missing_seam_is_drift(copied_host: Path) -> None:
    (copied_host / "v1/core/sched/scheduler.py").write_text("")
    _forget_files()
    with pytest.raises(PatchDrift, match="Scheduler"):
        verify(ALL, vllm.__version__, copied_host)


@pytest.mark.parametrize("minor", versions.SUPPORTED)
def test_every_supported_version_has_every_seam_recorded(minor: str) -> None:
    assert set(versions.recorded(minor)) == {patch.definition for patch in ALL}


@pytest.mark.contract("ENG-5")
def test_ledger_is_the_generated_one() -> None:
    assert (REPOSITORY / "patches" / "README.md").read_text() == ledger()


def test_rebinding_keeps_the_kind_of_the_attribute() -> None:
    class Owner:
        @staticmethod
        def fixed() -> str:
            return "fixed"

        @classmethod
        def made(cls) -> str:
            return cls.__name__

    for name in ("fixed", "made"):
        _rebind(Owner, name, lambda original: lambda *args: original(*args).upper())
    assert (Owner.fixed(), Owner().fixed(), Owner.made()) == ("FIXED", "FIXED", "OWNER")


def test_hooks_run_after_import_once_and_leave_the_import_path(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "hooked_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    hooks, seen = PostImportHooks(), []

    def note(module: ModuleType) -> None:
        seen.append(module.value)

    hooks.after("hooked_module", note)
    assert not seen
    import hooked_module  # noqa: F401

    assert seen == [1]
    assert hooks not in sys.meta_path
    hooks.after("hooked_module", note)
    assert seen == [1, 1], "an imported module is served at once"
    del sys.modules["hooked_module"]


def _forget_files() -> None:
    sources._lines.cache_clear()
    sources._tree.cache_clear()
