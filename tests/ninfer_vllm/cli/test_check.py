"""`ninfer check` prints each problem with code, message and place."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ninfer_vllm.cli.main import main
from ninfer_vllm.languages.json_schema.refusals import MAX_PROBLEMS
from tests.support.effort import cpu_within

pytestmark = pytest.mark.contract("API-6", "REQ-3")

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "format": "phone"},
        "b/c": {"type": "array", "$anchor": "x", "items": {"$dynamicRef": "#x"}},
        "d": {"anyOf": [{"type": "null"}, {"frobnicate": 3}]},
    },
}


def report(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["check", str(path), "--format", "json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, found


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("schema.json", '{"type": "integer"}', "json_schema"),
        ("true.json", "true", "json_schema"),
        ("list.json", ' ["a", "b"]', "choice"),
        ("grammar.gbnf", 'root ::= "a"\r\n', "grammar"),
        ("date.regex", "\\d+\n", "regex"),
        ("DATE.REGEX", "\\d+", "regex"),
    ],
)
def test_supported_file_is_zero(
    name: str, text: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert report(path, capsys) == (0, {"file": str(path), "kind": kind, "supported": True, "problems": []})
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: supported ({kind})\n"


@pytest.mark.contract("ERR-1", "JSD-8")
def test_every_unsupported_keyword_is_listed_with_its_pointer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    code, found = report(path, capsys)
    pointers = [problem["place"]["pointer"] for problem in found["problems"]]
    assert code == 1
    assert {problem["code"] for problem in found["problems"]} == {"unsupported_schema"}
    assert set(pointers) == {
        "/properties/a/format",
        "/properties/b~1c/$anchor",
        "/properties/b~1c/items/$dynamicRef",
        "/properties/d/anyOf/1/frobnicate",
    }
    assert len(pointers) == len(set(pointers))


REFUSED_WHILE_REDUCED = {
    "a": ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, "uniqueItems"),
    "b": ({"type": "object", "minProperties": 3}, "minProperties"),
    "c": ({"type": "array", "contains": {"type": "null"}, "unevaluatedItems": False}, "unevaluatedItems"),
    "d": ({"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.0000000000000002}, ""),
    "e": ({"type": "string", "pattern": "^a+$", "maxLength": 9000}, "pattern"),
    "f": ({"not": {"uniqueItems": True}}, "not/uniqueItems"),
    "g": ({"type": "integer", "multipleOf": 99991}, "multipleOf"),
    "h": ({"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}, "contains": {"const": 2}}, "uniqueItems"),
    "i": ({"type": "string", "format": "phone"}, "format"),
    "j": ({"pattern": "a(?=b)"}, "pattern"),
    "k": ({"$ref": "#/$defs/none"}, "$ref"),
}
"""Subschemas that are refused, each at a keyword; those from `a` to `h` only when they are reduced or written."""


@pytest.mark.contract("ERR-1", "JSD-8", "JSC-6")
def test_refusals_of_reading_reducing_and_writing_are_listed_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "schema.json"
    properties = {name: schema for name, (schema, _) in REFUSED_WHILE_REDUCED.items()}
    path.write_text(json.dumps({"type": "object", "properties": properties}))
    code, found = report(path, capsys)
    pointers = [problem["place"]["pointer"] for problem in found["problems"]]
    expected = {f"/properties/{name}/{keyword}".rstrip("/") for name, (_, keyword) in REFUSED_WHILE_REDUCED.items()}
    assert (code, set(pointers)) == (1, expected)
    assert len(pointers) == len(set(pointers))


def test_what_is_refused_hides_no_other_refusal_and_makes_none_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "schema.json"
    for name, (schema, keyword) in REFUSED_WHILE_REDUCED.items():
        path.write_text(json.dumps({"properties": {"x": schema, "y": {"oneOf": [{"type": "null"}, schema]}}}))
        found = report(path, capsys)[1]["problems"]
        pointers = {problem["place"]["pointer"] for problem in found}
        inside = {f"/properties/x/{keyword}".rstrip("/"), f"/properties/y/oneOf/1/{keyword}".rstrip("/")}
        assert {pointer.removesuffix("/oneOf/1") for pointer in pointers} <= inside | {"/properties/y"}, name
        assert f"/properties/x/{keyword}".rstrip("/") in pointers


@pytest.mark.contract("SEC-2", "JSD-7")
def test_listing_ends_with_very_many_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({f"keyword{at}": at for at in range(20_000)}))
    with cpu_within(30):
        code, found = report(path, capsys)
    assert (code, len(found["problems"])) == (1, MAX_PROBLEMS)


@pytest.mark.contract("ERR-1", "GBNF-2", "GBNF-3", "RGX-6", "CHO-4")
@pytest.mark.parametrize(
    ("name", "text", "code", "place"),
    [
        ("a.json", '{"type": "object",}', "invalid_schema", {"line": 1, "column": 19}),
        ("a.json", '{"type": "objekt"}', "invalid_schema", {"pointer": "/type"}),
        ("a.json", '{"x": 1e999, "uniqueItems": true, "x-y": 1}', "unsupported_schema", {"pointer": "/x"}),
        ("a.json", "false", "unsatisfiable", {"pointer": ""}),
        ("a.gbnf", 'root ::= "a"\nx ::= y', "invalid_grammar", {"line": 2, "column": 7}),
        ("a.regex", "a(?=b)", "invalid_regex", {"offset": 1}),
        ("a.json", '["a", 1]', "invalid_choice", {"index": 1}),
        ("a.json", '["a"', "invalid_choice", {}),
        ("a.json", "[]", "invalid_choice", {}),
    ],
)
def test_refused_file_is_one_with_code_and_place(
    name: str, text: str, code: str, place: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    status, found = report(path, capsys)
    assert (status, found["supported"]) == (1, False)
    problem = found["problems"][0]
    assert (problem["code"], problem["place"]) == (code, place)
    assert main(["check", str(path)]) == 1
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"{path}:{place['line']}:{place['column']}: " if "line" in place else f"{path}: ")
    assert f"{code}: {problem['message']}" in line


def test_unknown_keyword_is_an_annotation_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "string", "colour": 1}')
    assert report(path, capsys)[0] == 1
    assert report(path, capsys, "--unknown-schema-keywords", "annotation")[0] == 0


@pytest.mark.parametrize("data", [None, b"\xff"])
def test_input_that_cannot_be_judged_is_two(
    data: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "schema.json"
    if data is not None:
        path.write_bytes(data)
    code, found = report(path, capsys)
    assert (code, found["supported"]) == (2, None)
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err == f"ninfer check: {found['unusable']}\n"


def test_standard_input_needs_its_kind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a+")))
    assert main(["check", "-"]) == 2
    assert "--kind" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a+")))
    assert main(["check", "-", "--kind", "regex"]) == 0


@pytest.mark.contract("SEC-1", "SEC-2", "API-6", "ERR-1")
@pytest.mark.parametrize(
    ("name", "data", "exit_code", "said"),
    [
        ("long.json", b'{"const":' + b"9" * 5000 + b"}", 1, "/const"),
        ("deep.json", b"[" * 100_000, 1, "nesting_depth"),
        ("open.json", b"[\n", 1, "line 2, column 1"),
        ("mark.regex", b"\xef\xbb\xbfa", 2, "byte order mark"),
        ("huge.gbnf", b" " * (17 << 20), 2, "larger than"),
    ],
)
def test_hostile_files_get_one_line_and_an_exit_code(tmp_path, capsys, name, data, exit_code, said) -> None:
    (tmp_path / name).write_bytes(data)
    assert main(["check", str(tmp_path / name)]) == exit_code
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err
