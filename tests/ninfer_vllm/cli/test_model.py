"""`ninfer model` prints folders on stdout, progress on stderr, and a reason instead of a traceback."""

import argparse
from pathlib import Path

import pytest

from ninfer_vllm import embedded
from ninfer_vllm.cli import model


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser(prog="ninfer")
    model.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["model", *arguments])
    code = args.run(args)
    assert isinstance(code, int)
    return code


def test_path_of_a_built_model_is_all_that_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    path = embedded.build("tiny-qwen3")
    assert run("tiny-qwen3") == 0
    assert capfd.readouterr() == (f"{path}\n", "")


def test_print_path_makes_nothing(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("all", "--print-path", "--folder", str(tmp_path)) == 0
    assert capfd.readouterr() == (f"{tmp_path}/smollm2-1\n{tmp_path}/tiny-qwen3-1\n", "")
    assert list(tmp_path.iterdir()) == []


def test_smollm2_is_the_default(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("--print-path", "--folder", str(tmp_path)) == 0
    assert capfd.readouterr().out == f"{tmp_path}/smollm2-1\n"


def test_failing_download_is_told_in_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NINFER_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert run("tiny-qwen3") == 1
    output = capfd.readouterr()
    assert output.out == ""
    progress, reason = output.err.splitlines()
    assert progress == "tiny-qwen3: downloading dashscope 2.0.2 (2 MB)"
    assert reason.startswith("ninfer model: cannot build dashscope==2.0.2: pip could not download it: ")
    assert "`pip download --no-deps dashscope==2.0.2`" in reason


def test_unknown_model_is_refused_by_the_parser(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("gpt")
    assert "invalid choice: 'gpt'" in capfd.readouterr().err
