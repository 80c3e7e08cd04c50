"""Tokens of grammar texts: escapes, classes, repeats, and the place of each error."""

import pytest

from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.errors import InvalidGrammar
from ninfer_vllm.languages.gbnf.lexer import Token, tokenize
from ninfer_vllm.languages.gbnf.source import Source


def _tokens(text: str) -> list[Token]:
    return list(tokenize(Source.of(text)))


@pytest.mark.contract("GBNF-1")
@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ('""', ""),
        ('"a b"', "a b"),
        (r'"\n\r\t\\\"\'"', "\n\r\t\\\"'"),
        (r'"\x41B"', "AB"),
        (r'"\u00e9\U0001F600"', "é😀"),
        (r'"\[\]\-"', "[]-"),
        (r'"\a\b\f\v\e\0\?"', "\a\b\f\v\x1b\0?"),
        ('"# no comment"', "# no comment"),
        ('"漢😀"', "漢😀"),
    ],
)
def test_text_stands_for_its_characters(spelling: str, value: str) -> None:
    token, end = _tokens(spelling)
    assert (token.kind, token.value, token.spelling) == ("text", value, spelling)
    assert end.kind == "end"


@pytest.mark.contract("GBNF-1")
@pytest.mark.parametrize(
    ("spelling", "chars"),
    [
        ("[a-z]", CharSet.from_ranges([(0x61, 0x7A)])),
        ("[abc]", CharSet.from_chars("abc")),
        ("[a-]", CharSet.from_chars("a-")),
        ("[-a]", CharSet.from_chars("-a")),
        ("[a-c-e]", CharSet.from_chars("abc-e")),
        ("[+--]", CharSet.from_ranges([(0x2B, 0x2D)])),
        (r"[a\-z]", CharSet.from_chars("a-z")),
        (r"[\]\[\^\\\"]", CharSet.from_chars('][^\\"')),
        ("[a^]", CharSet.from_chars("a^")),
        ('["]', CharSet.from_chars('"')),
        ("[#]", CharSet.from_chars("#")),
        ("[^a]", ~CharSet.from_chars("a")),
        ("[^^]", ~CharSet.from_chars("^")),
        (r"[\x00-\x1f]", CharSet.from_ranges([(0, 0x1F)])),
        (r"[\u0000-\uFFFF]", CharSet.from_ranges([(0, 0xFFFF)])),
        (r"[\U0001F600-\U0001F64F]", CharSet.from_ranges([(0x1F600, 0x1F64F)])),
        ("[ぁ-ゟ]", CharSet.from_ranges([(0x3041, 0x309F)])),
        (".", ANY),
    ],
)
def test_class_stands_for_its_set(spelling: str, chars: CharSet) -> None:
    token, _ = _tokens(spelling)
    assert (token.kind, token.value) == ("class", chars)


@pytest.mark.contract("GBNF-1")
@pytest.mark.parametrize(
    ("spelling", "bounds"),
    [
        ("*", (0, None)),
        ("+", (1, None)),
        ("?", (0, 1)),
        ("{3}", (3, 3)),
        ("{2,}", (2, None)),
        ("{0,07}", (0, 7)),
        ("{ 2 , 3 }", (2, 3)),
        ("{2147483647}", (2147483647, 2147483647)),
    ],
)
def test_repeat_has_its_bounds(spelling: str, bounds: tuple[int, int | None]) -> None:
    token, _ = _tokens(spelling)
    assert (token.kind, token.value) == ("repeat", bounds)


def test_marks_names_comments_and_line_starts() -> None:
    tokens = _tokens('a-b_1 ::= (= x # "c"\r\n | y.z )')
    assert [token.spelling for token in tokens] == ["a-b_1", "::=", "(=", "x", "|", "y.z", ")", ""]
    assert [token.starts_line for token in tokens] == [True, False, False, False, True, False, False, False]


@pytest.mark.contract("GBNF-2")
@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('"a', 1, 1, "not closed"),
        ('"漢😀" "a\n"', 1, 6, "not closed"),
        ('"a\\', 1, 1, "not closed"),
        ("x\r\n [a-z", 2, 2, "not closed"),
        ("[a\n]", 1, 1, "not closed"),
        ("[", 1, 1, "not closed"),
        (" []", 1, 2, "empty class"),
        ("[^]", 1, 1, "empty class"),
        ("[a z-a]", 1, 5, "range is empty"),
        ('"a\\q"', 1, 3, "unknown escape"),
        ('"\\d"', 1, 2, "unknown escape"),
        ("[\\d]", 1, 2, "not part of the dialect"),
        ('"\\x4g"', 1, 2, "2 hexadecimal digits"),
        ('"\\u00 1"', 1, 2, "4 hexadecimal digits"),
        ('"\\U0011FFFF"', 1, 2, "no character"),
        ('"\\ud800"', 1, 2, "no character"),
        ("{,3}", 1, 1, "expected a repeat"),
        ("{a}", 1, 1, "expected a repeat"),
        ("{3,2}", 1, 1, "reversed"),
        ("{0,4294967298}", 1, 1, "at most 2147483647"),
        ("{" + "9" * 5000 + "}", 1, 1, "at most 2147483647"),
    ],
)
def test_error_names_line_and_column(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(InvalidGrammar) as caught:
        _tokens(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason
