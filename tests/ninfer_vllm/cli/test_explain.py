"""`ninfer explain` shows a schema's parts, the grammar and samples; what is refused is refused as by `ninfer check`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ninfer_vllm.cli.explain import SHOWN
from ninfer_vllm.cli.main import main
from tests.support.oracles.recogniser import Recogniser

pytestmark = pytest.mark.contract("API-6", "REQ-3")

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "maxItems": 2},
        "count": {"type": ["integer", "null"], "minimum": 0, "multipleOf": 3},
        "next": {"$ref": "#"},
        "day": {"oneOf": [{"type": "string", "format": "date"}, {"type": "string", "pattern": "^2"}]},
        "pair": {"type": "array", "prefixItems": [{"type": "number", "maximum": 2.5}], "contains": {"const": "x"}},
    },
    "required": ["name"],
    "patternProperties": {"^x-": {"type": "boolean"}},
    "additionalProperties": False,
}


def explained(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["explain", str(path), "--format", "json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, found


def test_schema_is_shown_part_by_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    code, found = explained(path, capsys)
    assert (code, found["file"], found["kind"], found["supported"]) == (0, str(path), "json_schema", True)
    parts = {part["name"]: part["lines"] for part in found["parts"]}
    assert next(iter(parts)) == "#"
    assert parts["#"][:2] == ["object", "    'name', required: #/properties/name"]
    assert "    a key matching ^x-: #/patternProperties/^x-" in parts["#"]
    assert parts["#/properties/name"] == ["string, 0 to 5 characters, matching ^[a-z]+$"]
    assert parts["#/properties/count"] == ["integer, at least 0, multiple of 3", "one of null"]
    assert parts["#/properties/day"] == [
        "string, of format date, not matching ^2",
        "string, matching ^2, not of format date",
    ]
    assert parts["#/properties/tags"][0] == "array, 0 to 2 items, all different"
    assert parts["#/properties/pair/prefixItems/0"] == ["number, at most 2.5"]
    assert "    at least 1 item are #/properties/pair/contains" in parts["#/properties/pair"]
    assert len(parts) == len(found["parts"])


@pytest.mark.contract("JST-2", "JSX-2")
def test_samples_are_valid_and_chosen_by_the_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    _, found = explained(path, capsys, "--samples", "20", "--seed", "7")
    assert len(found["samples"]) == 20
    validator = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert [text for text in found["samples"] if not validator.is_valid(json.loads(text))] == []
    assert explained(path, capsys, "--samples", "20", "--seed", "7")[1] == found
    assert explained(path, capsys, "--samples", "20", "--seed", "8")[1] != found
    assert explained(path, capsys, "--samples", "0")[1]["samples"] == []


@pytest.mark.parametrize(
    ("name", "text", "rules"),
    [
        ("word.regex", "a[0-9]{2,3}|é?", {"root": '"a" [0-9]{2,3} | "é"?'}),
        ("words.json", '["no", "nope", "yes"]', {"root": '"no" ("" | "pe") | "yes"'}),
        ("list.gbnf", 'root ::= "x" item*\nitem ::= "," [^\\n]', {"root": '"x" item*', "item": '"," [^\\n]'}),
        ("token.gbnf", "root ::= Token(5, 3) | ExcludeToken(9)", {"root": "<token 3 5> | <token other than 9>"}),
    ],
)
def test_grammar_of_other_languages_is_readable(
    name: str, text: str, rules: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    code, found = explained(path, capsys)
    assert (code, found["parts"]) == (0, [])
    assert {rule["name"]: rule["body"] for rule in found["rules"]} == rules


def test_small_automata_are_shown_by_their_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "string", "pattern": "^ab?$"}')
    (states,) = (rule["states"] for rule in explained(path, capsys)[1]["rules"] if rule["states"])
    assert states == ["0: [a] -> 1", "1: [b] -> 2, end", "2: end"]


def test_json_object_needs_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--kind", "json_object", "--samples", "3"]) == 0
    *_, heading, first, second, third = capsys.readouterr().out.splitlines()
    assert heading == "samples"
    assert all(isinstance(json.loads(text), dict) for text in (first, second, third))
    assert main(["explain", "a.json", "--kind", "json_object"]) == 2
    assert main(["explain"]) == 2


@pytest.mark.contract("JSO-7")
def test_whitespace_is_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "array", "items": {"type": "null"}}')
    names = {
        way: {rule["name"] for rule in explained(path, capsys, "--whitespace", way)[1]["rules"]}
        for way in ("compact", "flexible")
    }
    assert names["flexible"] - names["compact"] == {"space"}


def test_long_listings_are_cut_unless_all_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "schema.json"
    properties = {f"p{at}": {"type": "array", "items": {"minimum": at}} for at in range(SHOWN)}
    path.write_text(json.dumps({"properties": properties}))
    assert main(["explain", str(path)]) == 0
    short = capsys.readouterr().out
    assert len(re.findall(r"^… [0-9]+ more; --all prints them$", short, re.MULTILINE)) == 2
    assert main(["explain", str(path), "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(short.splitlines())


@pytest.mark.contract("SEC-1", "SEC-2", "ERR-1", "RGX-6", "GBNF-2", "CHO-4", "JSD-8")
@pytest.mark.parametrize(
    ("name", "data", "exit_code", "said"),
    [
        ("a.json", b'{"type": "objekt"}', 1, "/type"),
        ("a.json", b'{"items": {"uniqueItems": true, "type": "array", "items": {"type": "string"}}}', 1, "/items/uni"),
        ("a.json", b"false", 1, "unsatisfiable"),
        ("deep.json", b"[" * 100_000, 1, "nesting_depth"),
        ("open.json", b"[\n", 1, "line 2, column 1"),
        ("a.regex", b"a(?=b)", 1, "offset 1"),
        ("a.gbnf", b'root ::= "a"\nx ::= y', 1, "a.gbnf:2:7"),
        ("mark.regex", b"\xef\xbb\xbfa", 2, "byte order mark"),
        ("bytes.json", b"\xff", 2, "not UTF-8"),
        ("huge.gbnf", b" " * (17 << 20), 2, "larger than"),
        ("what.txt", b"a", 2, "--kind"),
    ],
)
def test_what_is_refused_gets_a_line_and_an_exit_code(
    name: str, data: bytes, exit_code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    assert main(["explain", str(tmp_path / name)]) == exit_code
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err
    assert explained(tmp_path / name, capsys)[1]["supported"] is (False if exit_code == 1 else None)


@pytest.mark.parametrize("words", [["--samples", "-1"], ["--samples", "10000000"], ["--seed", "x"]])
def test_words_out_of_range_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["explain", "a.json", *words])


def test_samples_are_members_of_the_grammar_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ninfer_vllm.languages.regex import lower_regex

    path = tmp_path / "a.regex"
    path.write_text("(ab|c+)*é{2}")
    recogniser = Recogniser(lower_regex("(ab|c+)*é{2}"))
    samples = explained(path, capsys, "--samples", "50")[1]["samples"]
    assert all(map(recogniser.accepts, samples))
    assert len(set(samples)) > 10
