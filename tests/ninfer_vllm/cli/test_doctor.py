"""`ninfer doctor` finds what is wrong, and only that."""

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm import embedded
from ninfer_vllm.cli import findings
from ninfer_vllm.cli.main import main
from ninfer_vllm.cli.seams import host_fault, inspect_seams

pytestmark = pytest.mark.contract("API-6")

PLUGIN = EntryPoint("ninfer", "ninfer_patches.plugin:register", "vllm.general_plugins")


def diagnosis(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", "--format", "json", *words])
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is (code == 0)
    return code, {finding["part"]: finding for finding in found["findings"]}


def test_this_installation_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    code, parts = diagnosis(capsys, str(embedded.build("tiny-qwen3")))
    assert code == 0
    assert list(parts) == ["ninfer", "host", "plugin", "seams", "xgrammar", "torch", "device", "tokenizer"]
    assert all(parts["seams"]["facts"]["seams"].values())
    tokenizer = parts["tokenizer"]["facts"]
    assert (tokenizer["size"], tokenizer["family"], list(tokenizer["ends"])) == (151936, "qwen", ["151643", "151645"])
    assert sum(tokenizer["counts"].values()) == 151936


def test_people_read_one_line_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [line.split()[:2] for line in lines] == [["ok", part] for part, _ in findings.host_findings()]


@pytest.mark.parametrize("content", [None, "{}"])
def test_tokenizer_that_cannot_be_adapted_is_wrong(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    code, parts = diagnosis(capsys, str(tmp_path))
    assert code == 1
    assert not parts["tokenizer"]["ok"]


def test_plugin_that_is_not_registered_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(findings, "entry_points", lambda group: [])
    code, parts = diagnosis(capsys)
    assert code == 1
    assert "registered 0 times" in parts["plugin"]["summary"]


@pytest.mark.contract("ENG-5")
def test_unknown_host_version_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("ninfer_vllm.host.installation.host_version", lambda: "0.1.0")
    code, parts = diagnosis(capsys)
    assert code == 1
    assert "vLLM 0.1.0 is not supported" in parts["host"]["summary"]
    assert not any(parts["seams"]["facts"]["seams"].values())


@pytest.mark.contract("ENG-5")
def test_changed_host_source_is_a_drifted_seam(tmp_path: Path) -> None:
    seams = inspect_seams(PLUGIN, "0.32.0", tmp_path)
    assert host_fault(PLUGIN, "0.32.0", tmp_path) is None
    assert seams
    assert all("is not the recorded one" in str(seam.fault) for seam in seams)
