"""Escapes of grammar texts: llama.cpp's and those of C that the xgrammar core reads."""

from __future__ import annotations

import re

from ninfer_vllm.automata.charset import MAX_SCALAR, SURROGATES
from ninfer_vllm.languages.gbnf.source import Source

CONTROLS = {"n": 10, "r": 13, "t": 9, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27, "0": 0}
ITSELF = frozenset("\\\"'?[]-")
ITSELF_IN_CLASS = ITSELF | frozenset("^$.*+(){}|/")
HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
SHORTHANDS = frozenset("dDwWsS")


def read_escape(source: Source, at: int, *, in_class: bool) -> tuple[int, int]:
    """The character that the escape at an offset stands for, and the offset behind it.

    Errors: InvalidGrammar at the backslash.
    """
    name = source.text[at + 1 : at + 2]
    if name in CONTROLS:
        return CONTROLS[name], at + 2
    if name and name in (ITSELF_IN_CLASS if in_class else ITSELF):
        return ord(name), at + 2
    if name in HEX_DIGITS:
        return _hexadecimal(source, at, HEX_DIGITS[name])
    if name in SHORTHANDS and in_class:
        raise source.error(at, f"the class \\{name} is not part of the dialect: write its ranges, such as 0-9")
    known = " ".join(f"\\{each}" for each in (*CONTROLS, *sorted(ITSELF_IN_CLASS if in_class else ITSELF)))
    raise source.error(at, f"unknown escape \\{name}: expected one of {known} \\xNN \\uNNNN \\UNNNNNNNN")


def _hexadecimal(source: Source, at: int, size: int) -> tuple[int, int]:
    end = at + 2 + size
    digits = source.text[at + 2 : end]
    if not re.fullmatch(rf"[0-9A-Fa-f]{{{size}}}", digits):
        raise source.error(at, f"expected {size} hexadecimal digits after \\{source.text[at + 1]}")
    code = int(digits, 16)
    if code > MAX_SCALAR or SURROGATES[0] <= code <= SURROGATES[1]:
        raise source.error(at, f"U+{code:04X} is no character: expected a Unicode scalar value")
    return code, end
