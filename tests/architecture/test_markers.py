"""The clauses that tests name exist, and the report finds every way to name one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import contract_coverage
from tests.architecture.repository import ROOT

PAGE = "# Page\n\n## RGX Regex\n- RGX-1 The whole content.\n- RGX-2 More.\n- **bold** is no clause.\n"
MODULE = '''
"""Ways to name a clause."""
import pytest
from pytest import mark

pytestmark = [pytest.mark.slow, pytest.mark.contract("RGX-1")]

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.contract("RGX-2"))])
@mark.contract("RGX-3", "RGX-4")
def test_x(x): ...

@pytest.mark.contract(*CLAUSES)
class TestY: ...
'''


def test_every_named_clause_exists() -> None:
    clauses = contract_coverage.clauses_in(contract_coverage.CONTRACT)
    marks = contract_coverage.marks_in(contract_coverage.TESTS)
    assert list(contract_coverage.faults(clauses, marks)) == []


def test_no_clause_is_defined_twice() -> None:
    clauses = contract_coverage.clauses_in(contract_coverage.CONTRACT)
    assert len(clauses) == len(set(clauses))


def test_marks_are_found_on_modules_functions_classes_and_parameters(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(MODULE, encoding="utf-8")
    found = {mark.clause for mark in contract_coverage.marks_in(tmp_path)}
    assert found == {"RGX-1", "RGX-2", "RGX-3", "RGX-4", None}


def test_report_lists_missing_clauses_and_faulty_marks(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    clauses = contract_coverage.clauses_in(tmp_path)
    marks = tuple(contract_coverage.Mark(f"tests/test_x.py:{n}", c) for n, c in enumerate(["RGX-1", "RGX-9", None]))
    assert list(contract_coverage.report(clauses, marks)) == [
        "family  clauses  named  without a test",
        "RGX           2      1  2",
        "total         2      1",
        "tests/test_x.py:1: RGX-9 is no clause of the contract",
        "tests/test_x.py:2: a contract mark takes literal clause ids",
    ]


@pytest.mark.parametrize(("named", "status"), [("RGX-1", 0), ("RGX-9", 1)])
def test_command_fails_only_when_a_mark_names_no_clause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, status: int
) -> None:
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "test_x.py").write_text(f'pytestmark = pytest.mark.contract("{named}")\n', encoding="utf-8")
    monkeypatch.setattr(contract_coverage, "TESTS", tmp_path)
    assert contract_coverage.main([str(tmp_path)]) == status


def test_report_runs_as_a_script() -> None:
    script = ROOT / "tests" / "contract_coverage.py"
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("family")


def test_report_fails_on_a_folder_without_clauses(tmp_path: Path) -> None:
    assert contract_coverage.main([str(tmp_path)]) == 1
