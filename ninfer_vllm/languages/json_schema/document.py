"""A strict reader of JSON text: every fault has a line and a column, numbers keep their spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from ninfer_vllm.errors import LimitExceeded, MalformedSchemaText
from ninfer_vllm.limits import NESTING_DEPTH, SCHEMA_TEXT_CHARS
from ninfer_vllm.spelling import child, line_and_column

INTEGER_DIGITS = 400
"""Digits of an integer that is kept as one: more than any binary64 value has; longer ones stay spellings."""

WHITE_SPACE = re.compile(r"[ \t\n\r]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]*')
HEX4 = re.compile(r"[0-9a-fA-F]{4}")
WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number that is not a short plain integer, as it was written."""

    spelling: str


Json = None | bool | int | Numeral | str | list["Json"] | dict[str, "Json"]


def read_document(text: str) -> Json:
    """The value of a JSON text; objects keep their key order.

    Errors: MalformedSchemaText for anything that is not strict JSON, duplicate keys and unpaired surrogates included;
    LimitExceeded for texts over `SCHEMA_TEXT_CHARS` or, with the place, nested deeper than `NESTING_DEPTH`.
    """
    if len(text) > SCHEMA_TEXT_CHARS:
        raise LimitExceeded("schema_text_chars", SCHEMA_TEXT_CHARS, len(text))
    return _Reader(text).document()


class _Reader:
    """Reads left to right; open containers are kept on a list, so that nesting costs no stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[list[Json] | dict[str, Json]] = []
        self._fresh = False

    def document(self) -> Json:
        value = self._value()
        while self._open:
            if len(self._open) > NESTING_DEPTH:
                raise LimitExceeded("nesting_depth", NESTING_DEPTH, len(self._open), self._place())
            self._continue(self._open[-1])
        self._skip()
        if self._at < len(self._text):
            self._fail("expected the end of the text")
        return value

    def _continue(self, container: list[Json] | dict[str, Json]) -> None:
        self._skip()
        closing = "}" if isinstance(container, dict) else "]"
        if self._take(closing):
            self._open.pop()
            self._fresh = False
            return
        if not self._fresh and not self._take(","):
            self._fail(f"expected ',' or '{closing}'")
        if isinstance(container, dict):
            key = self._key(container)
            container[key] = self._value()
        else:
            container.append(self._value())

    def _key(self, container: dict[str, Json]) -> str:
        self._skip()
        start = self._at
        if not self._take('"'):
            self._fail("expected a key in double quotes")
        key = self._string()
        if key in container:
            self._fail(f"the key {key!r} occurs twice in one object", start)
        self._skip()
        if not self._take(":"):
            self._fail("expected ':'")
        return key

    def _value(self) -> Json:
        """The next value; a container is returned empty and left open."""
        self._skip()
        self._fresh = False
        if self._take("{"):
            return self._opened({})
        if self._take("["):
            return self._opened([])
        if self._take('"'):
            return self._string()
        number = NUMBER.match(self._text, self._at)
        if number is not None:
            self._at = number.end()
            return _number(number)
        return self._word()

    def _opened(self, container: list[Json] | dict[str, Json]) -> Json:
        self._open.append(container)
        self._fresh = True
        return container

    def _place(self) -> str:
        """The JSON Pointer of the container that was opened last."""
        pointer = ""
        for container in self._open[:-1]:
            pointer = child(pointer, next(reversed(container)) if isinstance(container, dict) else len(container) - 1)
        return pointer

    def _word(self) -> bool | None:
        for word, value in WORDS.items():
            if self._take(word):
                return value
        for word in NOT_NUMBERS:
            if self._text.startswith(word, self._at):
                self._fail(f"{word} is no JSON number: numbers are finite")
        self._fail("expected a JSON value")

    def _string(self) -> str:
        """The string whose opening quote has been read."""
        start = self._at - 1
        parts = []
        while True:
            plain = PLAIN_TEXT.match(self._text, self._at)
            assert plain is not None
            parts.append(plain.group())
            self._at = plain.end()
            if self._take('"'):
                break
            if not self._take("\\"):
                ends = self._at == len(self._text)
                self._fail("the string does not end" if ends else "a control character in a string must be escaped")
            parts.append(self._escape())
        try:
            # Halves of a pair that were escaped one by one become one character.
            return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._fail("the string holds an unpaired surrogate", start)

    def _escape(self) -> str:
        char = self._text[self._at : self._at + 1]
        if char == "u":
            digits = HEX4.match(self._text, self._at + 1)
            if digits is None:
                self._fail("\\u is followed by four hexadecimal digits", self._at - 1)
            self._at = digits.end()
            return chr(int(digits.group(), 16))
        if char not in ESCAPES:
            self._fail("an unknown escape in a string", self._at - 1)
        self._at += 1
        return ESCAPES[char]

    def _skip(self) -> None:
        white = WHITE_SPACE.match(self._text, self._at)
        assert white is not None
        self._at = white.end()

    def _take(self, token: str) -> bool:
        found = self._text.startswith(token, self._at)
        self._at += len(token) * found
        return found

    def _fail(self, reason: str, at: int | None = None) -> NoReturn:
        raise MalformedSchemaText(reason, *line_and_column(self._text, self._at if at is None else at))


def _number(match: re.Match[str]) -> int | Numeral:
    whole = match[1] is None and match[2] is None
    return int(match.group()) if whole and len(match.group()) <= INTEGER_DIGITS else Numeral(match.group())
