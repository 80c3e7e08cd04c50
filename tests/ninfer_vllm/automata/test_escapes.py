"""What each escape stands for, against the tables of ECMA-262 and Python's Unicode data."""

import unicodedata

import pytest

from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.automata.escapes import CLASSES, LINE_END, SPACE, read_escape

pytestmark = pytest.mark.contract("RGX-3", "RGX-4")


def test_space_is_every_space_separator_and_the_named_controls() -> None:
    separators = {code for code in ANY if unicodedata.category(chr(code)) == "Zs"}
    assert set(SPACE) == separators | {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x2028, 0x2029, 0xFEFF}


def test_dot_excludes_the_four_line_ends() -> None:
    assert set(LINE_END) == {ord(char) for char in "\n\r\u2028\u2029"}


@pytest.mark.parametrize("name", "dws")
def test_upper_case_class_is_the_complement(name: str) -> None:
    assert CLASSES[name.upper()] == ~CLASSES[name]
    assert CLASSES[name] | CLASSES[name.upper()] == ANY


@pytest.mark.parametrize(
    ("escape", "char"),
    [
        ("\\t", "\t"),
        ("\\n", "\n"),
        ("\\r", "\r"),
        ("\\v", "\v"),
        ("\\f", "\f"),
        ("\\0", "\0"),
        ("\\x41", "A"),
        ("\\xe9", "é"),
        ("\\u2028", "\u2028"),
        ("\\uFFFF", "\uffff"),
        ("\\cJ", "\n"),
        ("\\cj", "\n"),
        *((f"\\{char}", char) for char in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    ],
)
def test_escape_stands_for_its_character(escape: str, char: str) -> None:
    assert read_escape(escape, 0, in_class=False) == (CharSet.from_chars(char), len(escape))
    assert read_escape(escape, 0, in_class=True) == (CharSet.from_chars(char), len(escape))


def test_backspace_is_an_escape_of_classes_only() -> None:
    assert read_escape("\\b", 0, in_class=True) == (CharSet.from_chars("\b"), 2)
