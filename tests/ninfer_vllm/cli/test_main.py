"""`ninfer` lists its commands, starts lightly, and tells failures in a line."""

import subprocess
import sys

import pytest

from ninfer_vllm.cli import check, main
from ninfer_vllm.errors import InvalidRegex, UnsupportedHost

pytestmark = pytest.mark.contract("API-6")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main.main(["--help"])
    output = capsys.readouterr().out
    listed = [line.split()[0] for line in output.splitlines() if line.startswith("    ") and line[4:5].isalpha()]
    assert listed == list(main.COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom ninfer_vllm.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'vllm', 'torch', 'transformers', 'xgrammar', 'numpy', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ninfer_vllm", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ninfer-vllm ")


@pytest.mark.parametrize("words", [[], ["bogus"], ["check"], ["check", "a.json", "--", "--dtype"]])
def test_words_that_make_no_command_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main.main(words)
    assert "ninfer" in capsys.readouterr().err


def test_a_word_that_a_command_does_not_take_shows_its_own_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main.main(["check", "a.json", "--bogus"])
    told = capsys.readouterr().err
    assert told.startswith("usage: ninfer check ")
    assert "--bogus" in told


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InvalidRegex("bad", 3), 2, "ninfer check: regex offset 3: bad\n"),
        (UnsupportedHost("0.1", ("0.32.x",)), 1, "ninfer check: vLLM 0.1 is not supported by ninfer-vllm; "),
        (ModuleNotFoundError("No module named 'vllm'", name="vllm"), 1, "ninfer check: vLLM is not installed; "),
        (KeyboardInterrupt(), 130, "ninfer check: interrupted\n"),
    ],
)
def test_expected_failures_are_told_in_a_line(
    error: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str) -> str:
        raise error

    monkeypatch.setattr(check, "read_text", fail)
    assert main.main(["check", "a.json"]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(line)
    assert output.err.count("\n") == 1
