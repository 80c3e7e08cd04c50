"""The documentation site builds strictly, and its tables, dashboard and snippets are those of the code."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT
from tests.support import error_table
from tests.support.snippets import DOCS, FENCE, PAGES, commands, plain_python


def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs-material is not installed")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, env=quiet)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "site" / "operations" / "metrics.html").is_file()


@pytest.mark.contract("ERR-1")
def test_table_of_errors_is_the_generated_one() -> None:
    _, inside, _ = error_table.parts(error_table.PAGE.read_text(encoding="utf-8"))
    assert inside == error_table.table(), "python -m tests.support.error_table writes it"


@pytest.mark.contract("ERR-1")
def test_every_code_has_advice() -> None:
    _, _, after = error_table.parts(error_table.PAGE.read_text(encoding="utf-8"))
    advised = {code for line in after.splitlines() if line.startswith("### ") for code in re.findall(r"`(\w+)`", line)}
    assert advised == {kind.code for kind in error_table.classes()} | {"internal_error"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_and_json_of_a_page_are_well_formed(page: Path) -> None:
    for language, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            ast.parse(text)
        elif language == "json":
            json.loads(text)


def snippets() -> list[tuple[str, list[str]]]:
    """The Python snippets of each page that need no engine, in order: later ones may use names of earlier ones."""
    return [(str(page.relative_to(ROOT)), plain) for page in PAGES if (plain := plain_python(page))]


@pytest.mark.parametrize(("page", "blocks"), snippets(), ids=[page for page, _ in snippets()])
def test_snippets_of_a_page_run(page: str, blocks: list[str]) -> None:
    script = "\n".join(blocks)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{page}: {done.stderr[-2000:]}"


def shown() -> list[list[str]]:
    """Every `ninfer` command of the documentation; the options of `serve` are the host's."""
    found = (words for page in PAGES for words in commands(page) if words[0] != "serve")
    return [list(words) for words in dict.fromkeys(map(tuple, found))]


@pytest.mark.contract("API-6")
@pytest.mark.parametrize("words", shown(), ids=" ".join)
def test_commands_of_the_pages_are_understood(words: list[str]) -> None:
    from ninfer_vllm.cli import main

    own, _ = main._split(words)
    assert callable(main._parser(own[0]).parse_args(own).run)


@pytest.mark.contract("OBS-3")
def test_dashboard_alerts_and_page_use_metrics_that_exist() -> None:
    from ninfer_vllm.host.metrics import metrics

    known = set()
    for metric in vars(metrics()).values():
        (family,) = metric.describe()
        suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count", "")}[family.type]
        known |= {family.name + suffix for suffix in suffixes}
    operations = DOCS / "operations"
    used = {name: _named(operations / name) for name in ("dashboard.json", "alerts.yaml", "metrics.md")}
    assert {name: names - known for name, names in used.items() if names - known} == {}
    told = used["metrics.md"]
    assert {name for name in known if name.endswith("_total")} <= told
    json.loads((operations / "dashboard.json").read_text(encoding="utf-8"))


def _named(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    return {name for name in re.findall(r"\bninfer_\w+", text) if not name.startswith("ninfer_vllm")}
