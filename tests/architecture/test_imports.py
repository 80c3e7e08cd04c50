"""The import contracts hold, and each of them notices what it forbids."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.repository import PACKAGES, ROOT, project

CONTRACTS = project()["tool"]["importlinter"]["contracts"]
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"


def test_import_contracts_hold() -> None:
    result = _lint(ROOT, ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """Empty packages and stages under the project's own contracts."""
    for package in PACKAGES:
        _write(tmp_path / package / "__init__.py")
    for stage in _stages():
        _write(tmp_path / "ninfer_vllm" / stage / "__init__.py")
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    return tmp_path


def test_empty_stages_keep_every_contract(stand_in: Path) -> None:
    result = _lint(stand_in, stand_in)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "imported", "contract"),
    [
        ("ninfer_vllm/errors/place.py", "ninfer_vllm.limits", "stages"),
        ("ninfer_vllm/host/params.py", "ninfer_vllm.cli", "stages"),
        ("ninfer_vllm/record/lines.py", "ninfer_vllm.constraint", "stages"),
        ("ninfer_vllm/unplaced/__init__.py", "ninfer_vllm.errors", "stages"),
        ("kernels/ninfer_kernels/masks.py", "ninfer_vllm.masks", "packages"),
        ("ninfer_vllm/session/states.py", "qwen_frontend", "packages"),
        ("ninfer_vllm/session/states.py", "vllm.sampling_params", "vllm"),
        ("qwen_frontend/thinking.py", "vllm", "vllm"),
        ("ninfer_vllm/compiler/cache.py", "xgrammar", "xgrammar"),
        ("ninfer_vllm/sampling/apply.py", "triton.language", "triton"),
        ("ninfer_vllm/grammar/ir.py", "torch", "pure"),
    ],
)
def test_forbidden_import_breaks_its_contract(stand_in: Path, module: str, imported: str, contract: str) -> None:
    _write(stand_in / module, f"import {imported}\n")
    result = _lint(stand_in, stand_in)
    assert result.returncode == 1
    assert f"{_name_of(contract)} BROKEN" in " ".join(result.stdout.split())


def test_cycle_between_neighbours_breaks_its_contract(stand_in: Path) -> None:
    _write(stand_in / "ninfer_vllm/host/rows.py", "import ninfer_vllm.host.params\n")
    _write(stand_in / "ninfer_vllm/host/params.py", "import ninfer_vllm.host.rows\n")
    result = _lint(stand_in, stand_in)
    assert result.returncode == 1
    assert f"{_name_of('siblings')} BROKEN" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("ninfer_vllm/host/params.py", "vllm"),
        ("qwen_frontend/host.py", "vllm"),
        ("patches/ninfer_patches/scheduler.py", "vllm"),
        ("ninfer_vllm/engines/xgrammar.py", "xgrammar"),
        ("kernels/ninfer_kernels/masks.py", "triton"),
    ],
)
def test_import_at_its_own_place_keeps_every_contract(stand_in: Path, module: str, imported: str) -> None:
    _write(stand_in / module, f"import {imported}\n")
    result = _lint(stand_in, stand_in)
    assert result.returncode == 0, result.stdout + result.stderr


def _stages() -> list[str]:
    (layers,) = (contract["layers"] for contract in CONTRACTS if contract["id"] == "stages")
    return [stage.strip(" ()") for layer in layers for stage in layer.split("|")]


def _name_of(contract_id: str) -> str:
    (name,) = (contract["name"] for contract in CONTRACTS if contract["id"] == contract_id)
    return name


def _write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _lint(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    paths = [str(root / Path(package).parent) for package in PACKAGES]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "COLUMNS": "400"}
    command = [sys.executable, "-c", LINT]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
