"""The guide says what the code does: error codes, schema keywords, links and commands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ninfer_vllm import embedded, errors
from ninfer_vllm.languages.json_schema.keywords import TABLE
from tests.architecture.repository import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _all(base: type[errors.NInferError]) -> set[type[errors.NInferError]]:
    return {base}.union(*(_all(child) for child in base.__subclasses__() if child.__module__.startswith("ninfer_vllm")))


@pytest.mark.contract("ERR-1")
def test_every_error_code_is_documented_under_its_status() -> None:
    assert issubclass(embedded.ModelBuildError, errors.NInferError)
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    told: dict[str, str] = {}
    for section in page.split("\n## ")[1:]:
        told |= dict.fromkeys(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE), section.splitlines()[0])
    known = {kind.code: kind for kind in _all(errors.NInferError) if "code" in vars(kind)}
    assert set(told) == set(known)
    for code, heading in told.items():
        kind = known[code]
        expected = "Start-up" if issubclass(kind, errors.HostError) else f"HTTP {kind.status.value}"
        assert expected in heading, code


def test_every_schema_keyword_is_documented_with_its_role() -> None:
    page = (ROOT / "docs" / "supported.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*) \| (\w+)", page.split("## Regular")[0], re.MULTILINE)
    told = {name: verdict for names, verdict in rows for name in re.findall(r"`([^`]+)`", names) if name != "x-*"}
    verdicts = {"assertion": {"enforced"}, "annotation": {"annotations"}, "refused": {"refused"}}
    wrong = [word.name for word in TABLE if told.get(word.name) not in verdicts.get(word.role, {"enforced", "read"})]
    assert wrong == []
    assert set(told) == {keyword.name for keyword in TABLE}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.contract("API-9")
def test_probe_of_the_quickstart_runs() -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    (snippet,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Probe" in code)
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tokens may come next" in done.stdout
