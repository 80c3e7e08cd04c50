"""ECMAScript's character escapes and class names, each as the set of characters it stands for."""

from __future__ import annotations

import re

from ninfer_vllm.automata.charset import SURROGATES, CharSet
from ninfer_vllm.errors import InvalidRegex

DIGIT = CharSet.from_ranges([(0x30, 0x39)])
WORD = DIGIT | CharSet.from_ranges([(0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
LINE_END = CharSet.from_ranges([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
SPACE = LINE_END | CharSet.from_ranges(
    [
        (0x09, 0x0D),
        (0x20, 0x20),
        (0xA0, 0xA0),
        (0x1680, 0x1680),
        (0x2000, 0x200A),
        (0x202F, 0x202F),
        (0x205F, 0x205F),
        (0x3000, 0x3000),
        (0xFEFF, 0xFEFF),
    ]
)
"""WhiteSpace and LineTerminator of ECMA-262, section 12.2 and 12.3."""

CLASSES = {"d": DIGIT, "D": ~DIGIT, "w": WORD, "W": ~WORD, "s": SPACE, "S": ~SPACE}
CONTROLS = {"t": 0x09, "n": 0x0A, "r": 0x0D, "v": 0x0B, "f": 0x0C}
PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
HEX_DIGITS = {"x": 2, "u": 4}
LETTER_BITS = 0x1F
"""`\\cX` is the letter's code modulo 32."""

REFUSED = {
    "b": "a word boundary is not supported: write the characters that must stand there",
    "B": "a word boundary is not supported: write the characters that must stand there",
    "p": "a Unicode property class is not supported: write the ranges of characters",
    "P": "a Unicode property class is not supported: write the ranges of characters",
    "k": "a back-reference is not supported: write the alternatives out",
    "c": "\\c takes one ASCII letter",
    "x": "\\x takes two hexadecimal digits",
    "u": "\\u takes four hexadecimal digits; write a character beyond U+FFFF as itself",
}


def read_escape(text: str, at: int, *, in_class: bool) -> tuple[CharSet, int]:
    """The characters that the escape at `text[at]` stands for, and the offset behind it.

    Errors: InvalidRegex at the backslash, for back-references, boundaries, properties, surrogates and unknown escapes.
    """
    name = text[at + 1 : at + 2]
    if not name:
        raise InvalidRegex("a backslash at the end escapes nothing: write \\\\ for the character", at)
    if name in CLASSES:
        return CLASSES[name], at + 2
    code, end = _code(text, at, name, in_class=in_class)
    return CharSet.from_ranges([(code, code)]), end


def _code(text: str, at: int, name: str, *, in_class: bool) -> tuple[int, int]:
    if name in CONTROLS:
        return CONTROLS[name], at + 2
    if name in PUNCTUATION:
        return ord(name), at + 2
    if name == "b" and in_class:
        return 0x08, at + 2
    if name in HEX_DIGITS:
        return _hexadecimal(text, at, name)
    if name == "c" and re.match(r"[A-Za-z]", text[at + 2 : at + 3]):
        return ord(text[at + 2]) & LETTER_BITS, at + 3
    if name == "0" and not re.match(r"[0-9]", text[at + 2 : at + 3]):
        return 0, at + 2
    raise InvalidRegex(_refusal(name), at)


def _hexadecimal(text: str, at: int, name: str) -> tuple[int, int]:
    end = at + 2 + HEX_DIGITS[name]
    digits = text[at + 2 : end]
    if not re.fullmatch(rf"[0-9A-Fa-f]{{{HEX_DIGITS[name]}}}", digits):
        raise InvalidRegex(REFUSED[name], at)
    code = int(digits, 16)
    if SURROGATES[0] <= code <= SURROGATES[1]:
        raise InvalidRegex("a surrogate is no character: write a character beyond U+FFFF as itself", at)
    return code, end


def _refusal(name: str) -> str:
    if name == "0":
        return "an octal escape is not supported: write \\x and two hexadecimal digits"
    if name in "123456789":
        return "a back-reference is not supported: write the alternatives out"
    return REFUSED.get(name, f"unknown escape \\{name}: write the character as itself, or \\u and four digits")
