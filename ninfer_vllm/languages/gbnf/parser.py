"""Tokens to rules: alternation, sequence, repeat, group, token terminals; nesting on an explicit stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.errors import InvalidGrammar, LimitExceeded
from ninfer_vllm.grammar import build
from ninfer_vllm.grammar.ir import Expr, Rule, text
from ninfer_vllm.languages.gbnf.lexer import Kind, Token, tokenize
from ninfer_vllm.languages.gbnf.source import Source
from ninfer_vllm.languages.gbnf.tokens import ID_DIGITS, TokenDomain
from ninfer_vllm.limits import NESTING_DEPTH

MAX_HEIGHT = 24
"""Levels of one rule's expression: what is deeper becomes a rule, so that no pass meets a deep tree."""

TOKEN_CONSTRUCTORS = ("Token", "ExcludeToken")
REFUSED_CONSTRUCTORS = ("TagDispatch", "TokenTagDispatch", "Regex", "Substring")

HINTS = {
    "'": " (texts stand in double quotes)",
    "<": " (a token is written Token(id))",
    "!": " (all tokens but one are written ExcludeToken(id))",
    "[": " (attributes of a rule are not supported: sampling belongs to the request)",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """The first place where a rule is referred to, and whether a parenthesis follows at once, as in `name(…)`."""

    offset: int
    called: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """What a text defines."""

    bodies: Mapping[str, Expr]
    """Includes rules split off a deep body, named "name/number", which no text can spell."""
    offsets: Mapping[str, int]
    """Where each rule of the text is defined."""
    references: Mapping[str, Reference]


def parse(source: Source, domain: TokenDomain) -> Rules:
    """Read a whole text.

    Errors: InvalidGrammar where it does not parse, a rule is defined twice or a token id is refused; LimitExceeded for
    the nesting of groups.
    """
    return _Parser(source, domain).parse()


@dataclass(slots=True)
class _Frame:
    """An open group, or the body of a rule."""

    opened: Token
    alternatives: list[Expr] = field(default_factory=list)
    items: list[Expr] = field(default_factory=list)
    height: int = 0
    """Of the highest item so far."""
    repeatable: bool = False
    """Whether the last item may take a repeat."""

    @property
    def is_blank(self) -> bool:
        return not self.items and not self.alternatives

    def add(self, item: Expr, height: int = 1) -> None:
        self.items.append(item)
        self.height = max(self.height, height)
        self.repeatable = True

    def end_alternative(self) -> None:
        self.alternatives.append(build.concat(self.items))
        self.items = []
        self.repeatable = False

    def expression(self) -> Expr:
        self.end_alternative()
        return build.union(self.alternatives)


class _Parser:
    """Two tokens of look-ahead: a rule ends where the next `name ::=` begins."""

    def __init__(self, source: Source, domain: TokenDomain) -> None:
        self._source = source
        self._domain = domain
        self._stream = tokenize(source)
        self._token = next(self._stream)
        self._next = next(self._stream, self._token)
        self._bodies: dict[str, Expr] = {}
        self._offsets: dict[str, int] = {}
        self._references: dict[str, Reference] = {}
        self._rule = ""

    def parse(self) -> Rules:
        while not self._at("end"):
            self._definition()
        return Rules(self._bodies, self._offsets, self._references)

    def _advance(self) -> Token:
        token = self._token
        self._token = self._next
        self._next = next(self._stream, self._token)
        return token

    def _at(self, *kinds: Kind) -> bool:
        return self._token.kind in kinds

    def _expected(self, what: str) -> InvalidGrammar:
        token = self._token
        found = "the end of the text" if token.kind == "end" else repr(token.spelling[:20])
        return self._source.error(token.offset, f"expected {what}, found {found}{HINTS.get(token.spelling[:1], '')}")

    def _definition(self) -> None:
        if not self._at("name"):
            raise self._expected("a rule name")
        name = self._advance()
        if not self._at("::="):
            raise self._expected(f"::= after the rule name {name.spelling!r}")
        if name.spelling in self._offsets:
            line = self._source.place(self._offsets[name.spelling])[0]
            raise self._source.error(name.offset, f"rule {name.spelling!r} is already defined at line {line}")
        self._offsets[name.spelling] = name.offset
        self._rule = name.spelling
        self._bodies[name.spelling] = self._body()

    def _body(self) -> Expr:
        frame = self._content(_Frame(self._advance()))
        if frame.is_blank:
            raise self._expected('an expression after ::= (the empty text is written "")')
        body = frame.expression()
        if self._at("(="):
            self._lookahead()
        return body

    def _lookahead(self) -> None:
        """Read a lookahead and forget it: it hints at what follows and is no part of the language (GBNF-6)."""
        frame = self._content(_Frame(self._advance()))
        if frame.is_blank or not self._at(")"):
            raise self._expected("an expression after (=" if frame.is_blank else ") that closes the lookahead")
        self._advance()
        if not self._at("end") and not self._at_definition():
            raise self._expected("the next rule: a lookahead stands at the end of its rule")

    def _content(self, bottom: _Frame) -> _Frame:
        """Read alternatives up to the end of the rule, or to the parenthesis or lookahead that is not theirs."""
        frames = [bottom]
        while True:
            token, frame = self._token, frames[-1]
            if token.kind == "(":
                if len(frames) > NESTING_DEPTH:
                    line, column = self._source.place(token.offset)
                    raise LimitExceeded("nesting_depth", NESTING_DEPTH, len(frames), line=line, column=column)
                frames.append(_Frame(self._advance()))
            elif token.kind == ")" and len(frames) > 1:
                self._advance()
                frames.pop()
                frames[-1].add(*self._lowered(frame.expression(), frame.height + 2))
            elif token.kind == "|":
                self._advance()
                frame.end_alternative()
            elif not self._item(frame):
                self._require_end(frames)
                return bottom

    def _require_end(self, frames: list[_Frame]) -> None:
        """What cannot continue an expression must end it."""
        ends = self._at("end", "(=", ")") or self._at_definition()
        if len(frames) > 1:
            line, column = self._source.place(frames[-1].opened.offset)
            raise self._expected(f") for the group opened at line {line}, column {column}")
        if self._at(")") and frames[0].opened.kind != "(=":
            raise self._expected("an expression or the next rule: no group is open")
        if not ends:
            raise self._expected("an expression or the next rule")

    def _at_definition(self) -> bool:
        return self._at("name") and self._next.kind == "::="

    def _item(self, frame: _Frame) -> bool:
        """Read one terminal, reference or repeat into the frame; False where none stands here."""
        token = self._token
        if token.kind == "repeat":
            self._repeat(frame)
        elif isinstance(token.value, str):
            frame.add(text(token.value))
            self._advance()
        elif isinstance(token.value, CharSet):
            self._require_no_attribute()
            frame.add(build.one_of(token.value))
            self._advance()
        elif token.kind == "name" and self._next.kind != "::=":
            frame.add(self._named())
        else:
            if self._at_definition() and not token.starts_line:
                raise self._source.error(token.offset, "expected a new line before the next rule")
            return False
        return True

    def _require_no_attribute(self) -> None:
        if self._next.kind == "::=":
            raise self._expected("::= after the rule name")

    def _repeat(self, frame: _Frame) -> None:
        if not frame.repeatable:
            raise self._expected("something to repeat (a repeat is repeated as a group)")
        bounds = self._advance().value
        assert isinstance(bounds, tuple)
        frame.items[-1], height = self._lowered(build.repeat(frame.items[-1], *bounds), frame.height + 1)
        frame.height = max(frame.height, height)
        frame.repeatable = False

    def _named(self) -> Expr:
        name = self._advance()
        called = self._at("(", "(=")
        if called and name.spelling in TOKEN_CONSTRUCTORS:
            return self._tokens(name)
        if called and name.spelling in REFUSED_CONSTRUCTORS:
            raise self._source.error(
                name.offset, f"the constructor {name.spelling} is not supported: expected rules, texts and classes"
            )
        adjacent = called and self._token.offset == name.end
        self._references.setdefault(name.spelling, Reference(name.offset, adjacent))
        return Rule(name.spelling)

    def _tokens(self, name: Token) -> Expr:
        ids: set[int] = set()
        while self._at("(" if not ids else ","):
            self._advance()
            ids.add(self._token_id())
        if not self._at(")"):
            raise self._expected(f", or ) in {name.spelling}(…)")
        self._advance()
        chosen = frozenset(ids)
        return self._domain.only(chosen) if name.spelling == "Token" else self._domain.all_but(chosen)

    def _token_id(self) -> int:
        digits = self._token.spelling
        if not self._at("name") or not (digits.isascii() and digits.isdigit()):
            raise self._expected("a token id, a number")
        digits = digits.lstrip("0") or "0"
        # A longer number is beyond any domain; its first digits show that as well.
        refusal = self._domain.refusal(int(digits[: ID_DIGITS + 1]))
        if refusal:
            raise self._source.error(self._token.offset, refusal)
        self._advance()
        return int(digits)

    def _lowered(self, expr: Expr, height: int) -> tuple[Expr, int]:
        """The expression, or a rule of its own where it has become high."""
        if height < MAX_HEIGHT:
            return expr, height
        name = f"{self._rule}/{len(self._bodies)}"
        self._bodies[name] = expr
        return Rule(name), 1
