"""No committed text names a machine's paths, a registry's host, or work without an issue."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT, files

# Spelled in parts, so that this file may be read by its own tests.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("download", "pytorch", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("debian", "org"),
        ("proxy", "golang", "org"),
    )
]
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.~)}])/(?:" + "|".join(["work", "root", "tmp/brief"]) + r")/"),
    "a registry's host": re.compile("|".join(re.escape(host) for host in REGISTRIES)),
    "work without an issue": re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b(?!\(#\d+)"),
}
BANNER = re.compile(r"^\s*#\s*(?:[-=#*~]\s*){4,}")
# Test suites and vocabularies are data of others; only what we wrote is held to this.
TEXT = {
    ".cfg",
    ".css",
    ".gbnf",
    ".html",
    ".jinja",
    ".js",
    ".json",
    ".md",
    ".py",
    ".sh",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
}
NAMED_TEXT = {"Makefile", "run", ".gitignore"}


def _written() -> list[Path]:
    return [path for path in files() if path.suffix in TEXT or path.name in NAMED_TEXT]


@pytest.mark.parametrize("path", _written(), ids=str)
def test_text_names_nothing_that_is_not_the_projects(path: Path) -> None:
    assert list(_faults((ROOT / path).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", [path for path in _written() if path.suffix == ".py"], ids=str)
def test_code_has_no_banners(path: Path) -> None:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, start=1) if BANNER.match(line)] == []


@pytest.mark.parametrize(
    ("text", "num_faults"),
    [
        ("open('/" + "work/main')", 1),
        ("https://" + REGISTRIES[0] + "/simple", 1),
        ("# TO" + "DO: later", 1),
        ("# TO" + "DO(#12, vLLM 0.34): later", 0),
        ("the network/" + "work/ folder of a relative path", 0),
    ],
)
def test_forbidden_text_is_noticed(text: str, num_faults: int) -> None:
    assert len(list(_faults(text))) == num_faults


def _faults(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for fault, pattern in FORBIDDEN.items():
            if pattern.search(line):
                yield f"line {number}: {fault}: {line.strip()[:100]}"
