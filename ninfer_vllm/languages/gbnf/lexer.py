"""Grammar text to tokens: names, texts, classes, repeats and marks, each with its offset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ninfer_vllm.automata.charset import ANY, CharSet
from ninfer_vllm.languages.gbnf.escapes import read_escape
from ninfer_vllm.languages.gbnf.source import Source
from ninfer_vllm.limits import REPEAT_BOUND

Kind = Literal["name", "text", "class", "repeat", "::=", "(=", "(", ")", "|", ",", "=", "unknown", "end"]

Bounds = tuple[int, int | None]

BLANK = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
NAME = re.compile(r"[A-Za-z0-9_.-]+")
MARK = re.compile(r"::=|\(=|[()|,=]")
TEXT = re.compile(r'"((?:[^"\\\r\n]|\\[^\r\n])*)"')
REPEAT = re.compile(r"\{[ \t]*([0-9]+)[ \t]*(?:(,)[ \t]*([0-9]*)[ \t]*)?\}")
SHORT_REPEATS: dict[str, Bounds] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
BOUND_DIGITS = len(str(REPEAT_BOUND))


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `value` holds a text's characters, a class's set or a repeat's bounds."""

    kind: Kind
    spelling: str
    offset: int
    starts_line: bool
    value: str | CharSet | Bounds | None = None

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + len(self.spelling)


def tokenize(source: Source) -> Iterator[Token]:
    """The tokens of a text, the last of kind "end"; read lazily, so that the first error of the text is met first.

    Errors: InvalidGrammar for an unclosed text or class, an unknown escape, an empty range or bad repeat bounds.
    """
    at = 0
    line = 0
    while True:
        found = BLANK.match(source.text, at)
        at = found.end() if found else at
        now = source.place(at)[0]
        token = _token(source, at, starts_line=now != line)
        line = now
        yield token
        if token.kind == "end":
            return
        at = token.end


def _token(source: Source, at: int, *, starts_line: bool) -> Token:
    text = source.text
    if at == len(text):
        return Token("end", "", at, starts_line)
    char = text[at]
    if char == '"':
        return _text(source, at, starts_line=starts_line)
    if char == "[":
        chars, end = _class(source, at)
        return Token("class", text[at:end], at, starts_line, chars)
    if char in "*+?{":
        return _repeat(source, at, starts_line=starts_line)
    name = NAME.match(text, at)
    if name:
        return _name(name[0], at, starts_line=starts_line)
    mark = MARK.match(text, at)
    if mark:
        return Token(mark[0], mark[0], at, starts_line)  # type: ignore[arg-type]
    return Token("unknown", char, at, starts_line)


def _name(spelling: str, at: int, *, starts_line: bool) -> Token:
    """A name, or the dot that stands for any character; dots inside a name belong to it."""
    if spelling.startswith(".") and not spelling.strip("."):
        return Token("class", ".", at, starts_line, ANY)
    return Token("name", spelling, at, starts_line)


def _text(source: Source, at: int, *, starts_line: bool) -> Token:
    found = TEXT.match(source.text, at)
    if not found:
        raise source.error(at, 'this text is not closed on its line: expected " (a new line inside is written \\n)')
    value = found[1]
    if "\\" in value:
        value = _unescaped(source, at + 1, found.end() - 1)
    return Token("text", found[0], at, starts_line, value)


def _unescaped(source: Source, at: int, end: int) -> str:
    chars: list[str] = []
    while at < end:
        plain = source.text.find("\\", at, end)
        stop = end if plain < 0 else plain
        chars.append(source.text[at:stop])
        at = stop
        if at < end:
            code, at = read_escape(source, at, in_class=False)
            chars.append(chr(code))
    return "".join(chars)


def _class(source: Source, opened: int) -> tuple[CharSet, int]:
    """The set of the class that opens at an offset, and the offset behind it."""
    text = source.text
    negated = text.startswith("^", opened + 1)
    first = at = opened + 1 + negated
    ranges: list[tuple[int, int]] = []
    while not text.startswith("]", at):
        low, at = _member(source, at, opened)
        high = low
        if text.startswith("-", at) and not text.startswith("-]", at):
            dash = at
            high, at = _member(source, at + 1, opened)
            if high < low:
                raise source.error(dash, "the range is empty, its end is before its start: swap them")
        ranges.append((low, high))
    if at == first:
        raise source.error(opened, "an empty class: expected characters between [ and ]")
    chars = CharSet.from_ranges(ranges)
    return (~chars if negated else chars), at + 1


def _member(source: Source, at: int, opened: int) -> tuple[int, int]:
    char = source.text[at : at + 1]
    if not char or char in "\r\n":
        raise source.error(opened, "this class is not closed on its line: expected ] (a new line is written \\n)")
    if char == "\\":
        return read_escape(source, at, in_class=True)
    return ord(char), at + 1


def _repeat(source: Source, at: int, *, starts_line: bool) -> Token:
    char = source.text[at]
    if char in SHORT_REPEATS:
        return Token("repeat", char, at, starts_line, SHORT_REPEATS[char])
    found = REPEAT.match(source.text, at)
    if not found:
        raise source.error(at, "expected a repeat {m}, {m,} or {m,n} with numbers")
    minimum = _bound(source, at, found[1])
    maximum = minimum if not found[2] else _bound(source, at, found[3]) if found[3] else None
    if maximum is not None and maximum < minimum:
        raise source.error(at, f"the repeat {found[0]} has its bounds reversed: expected the smaller one first")
    return Token("repeat", found[0], at, starts_line, (minimum, maximum))


def _bound(source: Source, at: int, digits: str) -> int:
    value = digits.lstrip("0") or "0"
    if len(value) > BOUND_DIGITS or int(value) > REPEAT_BOUND:
        raise source.error(at, f"a repeat bound is at most {REPEAT_BOUND}")
    return int(value)
