"""`ninfer generate`: refusals before an engine starts, exact output, and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.cli import generate
from ninfer_vllm.cli.main import main
from ninfer_vllm.errors import ConstraintDeadEnd
from ninfer_vllm.host.chat_reading import ChatMessage, ToolCall
from ninfer_vllm.host.offline import Sample
from ninfer_vllm.record import ConstraintRecord

pytestmark = pytest.mark.contract("API-6")

STATUS = 'root ::= "status=" ("ok" | "error") "\\n"\n'


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Rome", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def output(
    text: str, *, complete: bool | None = True, reason: str = "stop", error: Any = None, message: Any = None
) -> Sample:
    record = None if complete is None else ConstraintRecord("regex", "xgrammar", complete=complete)
    return Sample(text, reason, record, error, message)


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[Sample]:
    """What the engine gives; none is started."""
    given: list[Sample] = []
    monkeypatch.setattr(generate, "_outputs", lambda *args: given)
    monkeypatch.setattr(generate, "_quieten", lambda embedded: None)
    return given


def test_piped_text_is_exact(outputs: list[Sample], capsys: pytest.CaptureFixture[str]) -> None:
    outputs.append(output("status=ok\n"))
    assert main(["generate", "m", "--prompt", "x", "--regex", "a"]) == 0
    assert capsys.readouterr() == ("status=ok\n", "")
    outputs[:] = [output("a")]
    assert main(["generate", "m", "--prompt", "x", "--regex", "a"]) == 0
    assert capsys.readouterr() == ("a", "")
    outputs[:] = [output("a"), output("b")]
    assert main(["generate", "m", "--prompt", "x", "--regex", "a", "--n", "2"]) == 0
    assert capsys.readouterr() == ("a\nb\n", "")


@pytest.mark.contract("OBS-2")
def test_json_holds_text_reason_and_record(outputs: list[Sample], capsys: pytest.CaptureFixture[str]) -> None:
    outputs.append(output("é\n"))
    assert main(["generate", "m", "--prompt", "x", "--regex", "a", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["text"], found["finish_reason"], found["constraint"]["complete"]) == ("é\n", "stop", True)


@pytest.mark.contract("GEN-3", "ERR-5")
@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (output("a", complete=False, reason="length"), 1, "not complete (finish reason length)"),
        (output("a", complete=False, reason="error", error=ConstraintDeadEnd(3)), 1, "no legal token after 3"),
        (output("a", complete=True, reason="length"), 1, "not complete"),
        (output("a", complete=None, reason="length"), 0, ""),
    ],
)
def test_exit_code_tells_whether_the_output_is_complete(
    outputs: list[Sample],
    capsys: pytest.CaptureFixture[str],
    given: Sample,
    code: int,
    told: str,
) -> None:
    outputs.append(given)
    assert main(["generate", "m", "--prompt", "x"]) == code
    assert told in capsys.readouterr().err


@pytest.mark.contract("REQ-3", "ERR-2")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--regex", "("], "regex offset 0"),
        (["--choice", "\udcff"], "choice 0"),
        (["--json-schema-file", "schema.json"], "/uniqueItems"),
        (["--grammar-file", "bad.gbnf"], "line 1, column 10"),
        (["--grammar-file", "missing.gbnf"], "No such file"),
        (["--system", "x"], "--system needs --chat"),
        (["--tools-file", "tools.json"], "--tools-file needs --chat"),
        (["--tool-choice", "auto"], "--tool-choice needs --tools-file"),
    ],
)
def test_refused_input_is_two_before_an_engine_starts(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.json").write_text('{"uniqueItems": true}')
    Path("bad.gbnf").write_text("root ::= x")
    assert main(["generate", "m", "--prompt", "x", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("ninfer generate: ")
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--prompt", "x", "--chat", "y"],
        ["--prompt", "x", "--regex", "a", "--json-object"],
        ["--prompt", "x", "--choice", "a", "--grammar-file", "g"],
    ],
)
def test_options_that_exclude_each_other_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["generate", "m", *words])
    assert "not allowed with" in (error := capsys.readouterr().err) or "is required" in error


@pytest.mark.contract("TOOL-12", "REQ-5", "ERR-2")
@pytest.mark.parametrize(
    ("declared", "words", "told"),
    [
        ("[", [], "tools (root): line 1, column 2"),
        ("{}", [], "the tools must be a list"),
        ("[]", ["--regex", "a"], "regex constraint cannot be combined with active tools"),
    ],
)
def test_tools_that_need_no_model_to_be_refused_are_refused_before_an_engine_starts(
    declared: str, words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tools.json").write_text(declared)
    assert main(["generate", "m", "--chat", "x", "--tools-file", str(tmp_path / "tools.json"), *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.contract("TOOL-5", "TOOL-12", "REQ-4")
@pytest.mark.parametrize(
    ("words", "mode", "names", "body"),
    [
        ([], "auto", None, None),
        (["--tool-choice", "required"], "required", None, None),
        (["--tool-choice", "weather"], "required", ("weather",), None),
        (["--tool-choice", "none", "--json-object"], "none", None, "json_object"),
    ],
)
def test_tools_become_one_constraint_with_their_policy_and_body(
    words: list[str], mode: str, names: Any, body: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(generate, "_outputs", lambda args, model, text, constraint: asked.append(constraint) or [])
    monkeypatch.setattr(generate, "_quieten", lambda embedded: None)
    (tmp_path / "tools.json").write_text(json.dumps([TOOL]))
    assert main(["generate", "m", "--chat", "x", "--tools-file", str(tmp_path / "tools.json"), *words]) == 0
    (constraint,) = asked
    assert json.loads(constraint.declarations) == [TOOL]
    assert (constraint.policy.mode, constraint.policy.allowed_names) == (mode, names)
    assert (None if constraint.body is None else constraint.body.kind) == body


@pytest.mark.contract("TOOL-10", "THK-8")
def test_calls_are_lines_of_json_and_members(outputs: list[Sample], capsys: pytest.CaptureFixture[str]) -> None:
    calls = (ToolCall("a", '{"x": "é"}'), ToolCall("b", "{}"))
    outputs.append(output("raw", message=ChatMessage("hm", "Look:", calls)))
    assert main(["generate", "m", "--prompt", "x"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "Look:"
    assert [json.loads(line) for line in lines] == [
        {"name": "a", "arguments": {"x": "é"}}, {"name": "b", "arguments": {}},
    ]  # fmt: skip
    assert main(["generate", "m", "--prompt", "x", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["reasoning"], told["content"]) == ("raw", "hm", "Look:")
    assert told["tool_calls"] == [{"name": "a", "arguments": '{"x": "é"}'}, {"name": "b", "arguments": "{}"}]


@pytest.mark.contract("CHO-2")
def test_repeated_choice_is_one_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(generate, "_outputs", lambda args, model, text, constraint: asked.append(constraint) or [])
    monkeypatch.setattr(generate, "_quieten", lambda embedded: None)
    assert main(["generate", "m", "--prompt", "x", "--choice", "a", "--choice", "b", "--choice", "a"]) == 0
    assert asked[0].literals == ("a", "b")


def _run(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ninfer_vllm", "generate", "embedded", *words, "--", "--max-model-len", "512"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, input=stdin, env=environment)


@pytest.mark.engine
@pytest.mark.contract("WEX-1", "REQ-3")
def test_grammar_file_gives_its_exact_bytes(tmp_path: Path) -> None:
    (tmp_path / "status.gbnf").write_text(STATUS)
    done = _run("--prompt-file", "-", "--grammar-file", str(tmp_path / "status.gbnf"), stdin="The machine says: ")
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("status=ok\n", "status=error\n")


@pytest.mark.engine
def test_chat_without_constraint_is_free_and_has_no_record() -> None:
    done = _run("--chat", "Say hello.", "--max-tokens", "4", "--format", "json", "--temperature", "0")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["constraint"] is None
    assert found["text"]


@pytest.mark.engine
@pytest.mark.contract("TOOL-4", "TOOL-5")
def test_a_named_tool_of_a_file_is_called_with_valid_arguments(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps([TOOL]))
    words = ("--chat", "How is the weather in Rome?", "--tools-file", str(tmp_path / "tools.json"))
    done = _run(*words, "--tool-choice", "weather", "--temperature", "0")
    assert done.returncode == 0, done.stderr
    (call,) = done.stdout.splitlines()
    assert json.loads(call) in [{"name": "weather", "arguments": {"city": city}} for city in ("Rome", "Oslo")]


@pytest.mark.engine
@pytest.mark.contract("GBNF-4")
def test_grammar_that_names_an_end_token_is_refused_by_the_model_s_domain(tmp_path: Path) -> None:
    (tmp_path / "end.gbnf").write_text('root ::= "a" Token(2)\n')
    done = _run("--prompt", "x", "--grammar-file", str(tmp_path / "end.gbnf"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("ninfer generate: grammar line 1, column ")
