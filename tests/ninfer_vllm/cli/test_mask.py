"""`ninfer mask` prints the tokens that a real vocabulary allows next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.cli.main import main
from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.testing import Probe

pytestmark = pytest.mark.contract("API-6")
MODEL = "embedded"


@pytest.fixture
def regex(tmp_path: Path) -> Path:
    file = tmp_path / "date.regex"
    file.write_text(r"\d{4}-\d{2}" + "\n")
    return file


def report(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["mask", *words, "--format", "json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, found


def test_mask_is_that_of_the_probe(regex: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(capsys, MODEL, str(regex), "--prefix", "2024-", "--all")
    expected = Probe(MODEL).mask(OutputConstraint.regex(r"\d{4}-\d{2}"), "2024-")
    assert code == 0
    assert [token["id"] for token in found["legal"]] == expected.nonzero()[0].tolist()
    assert (found["num_legal"], found["num_tokens"], found["complete"]) == (expected.sum(), len(expected), False)


def test_text_says_how_many_and_whether_it_may_end(regex: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", MODEL, str(regex), "--prefix", "2024-05"]) == 0
    output = capsys.readouterr().out
    mask = Probe(MODEL).mask(OutputConstraint.regex(r"\d{4}-\d{2}"), "2024-05")
    assert output.startswith(f"{mask.sum()} of {len(mask)} tokens are legal")
    assert "the text may end here" in output
    assert "(end)" in output


def test_json_object_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(capsys, MODEL, "--kind", "json_object")
    assert (code, found["kind"]) == (0, "json_object")
    assert "{" in {token["text"] for token in found["legal"]}


@pytest.mark.parametrize(("prefix", "offset"), [("20x", 2), ("2024-05-", 7)])
def test_no_prefix_is_told_with_its_byte(
    regex: Path, prefix: str, offset: int, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = report(capsys, MODEL, str(regex), "--prefix", prefix)
    assert code == 1
    assert found["problems"][0]["place"] == {"offset": offset}
    assert main(["mask", MODEL, str(regex), "--prefix", prefix]) == 1
    assert f"byte {offset}" in capsys.readouterr().err


def test_refusals_and_unusable_input_are_exit_code_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.regex"
    file.write_text("a(?=b)")
    code, found = report(capsys, MODEL, str(file))
    assert (code, found["problems"][0]["code"]) == (2, "invalid_regex")
    assert main(["mask", MODEL]) == 2
    assert main(["mask", MODEL, str(tmp_path / "absent.regex")]) == 2
    assert main(["mask", "./no/such/folder", str(file)]) == 2
    assert "Traceback" not in capsys.readouterr().err
