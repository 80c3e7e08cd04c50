"""Grammar texts to rules: structure, the end of rules, and each syntax error with its place."""

import pytest

from ninfer_vllm.errors import InvalidGrammar, LimitExceeded
from ninfer_vllm.grammar.ir import (
    EMPTY_TEXT,
    Alternation,
    ExcludeToken,
    Expr,
    Repeat,
    Rule,
    Sequence,
    Token,
    text,
    walk,
)
from ninfer_vllm.languages.gbnf.parser import Reference, Rules, parse
from ninfer_vllm.languages.gbnf.source import Source
from ninfer_vllm.languages.gbnf.tokens import TokenDomain
from ninfer_vllm.vocabulary import TokenClass, Vocabulary

CLASSES = bytes([TokenClass.ORDINARY, TokenClass.ORDINARY, TokenClass.CONTROL, TokenClass.EOS, TokenClass.UNUSABLE])
VOCABULARY = Vocabulary((b"a", b"b", b"<x>", b"</s>", b""), CLASSES, {"<x>": 2, "</s>": 3})


def _rules(source: str, vocabulary: Vocabulary | None = None) -> Rules:
    return parse(Source.of(source), TokenDomain(vocabulary))


def _body(expression: str) -> Expr:
    return _rules(f"root ::= {expression}").bodies["root"]


@pytest.mark.contract("GBNF-1")
def test_repeat_binds_closest_then_sequence_then_alternation() -> None:
    assert _body('"ab"* x | (y "c" | "d"){2}') == Alternation(
        (
            Sequence((Repeat(text("ab"), 0, None), Rule("x"))),
            Repeat(Alternation((text("d"), Sequence((Rule("y"), text("c"))))), 2, 2),
        )
    )


@pytest.mark.contract("GBNF-1")
@pytest.mark.parametrize("expression", ['| "a"', '"a" |', '("a" |)', '(|"a")'])
def test_alternative_may_be_empty(expression: str) -> None:
    assert _body(expression) == Alternation((text("a"), EMPTY_TEXT))


@pytest.mark.contract("GBNF-1")
def test_rule_ends_where_the_next_begins() -> None:
    rules = _rules('root ::=\n  x # one\n\n  y |\n  (\n    "a"\n  )\nx::="b"\r\ny ::=\r\n"c"\n\n# end')
    assert rules.bodies == {
        "root": Alternation((text("a"), Sequence((Rule("x"), Rule("y"))))),
        "x": text("b"),
        "y": text("c"),
    }
    assert rules.offsets["x"] < rules.offsets["y"]
    assert rules.references == {"x": Reference(11, False), "y": Reference(22, False)}


@pytest.mark.contract("GBNF-6")
def test_lookahead_is_read_and_leaves_the_rule_as_it_is() -> None:
    rules = _rules('root ::= "a" | x (= "b" (x | [c])* )\nx ::= "d"')
    assert rules.bodies["root"] == Alternation((text("a"), Rule("x")))


@pytest.mark.contract("GBNF-1")
def test_name_before_a_group_is_a_reference() -> None:
    assert _body('foo("a" | x)') == Sequence((Rule("foo"), Alternation((text("a"), Rule("x")))))
    assert _body("Token") == Rule("Token")


@pytest.mark.contract("GBNF-4")
def test_token_terminals_hold_their_ids() -> None:
    assert _body("Token(5, 007,5) ExcludeToken (1)") == Sequence(
        (Token(frozenset({5, 7})), ExcludeToken(frozenset({1})))
    )


@pytest.mark.contract("GBNF-4", "TOK-3")
@pytest.mark.parametrize(
    ("token", "reason"), [(2, "frames the output"), (3, "frames the output"), (4, "not a token"), (5, "not a token")]
)
@pytest.mark.parametrize("constructor", ["Token", "ExcludeToken"])
def test_token_id_outside_ordinary_tokens_is_refused(token: int, reason: str, constructor: str) -> None:
    with pytest.raises(InvalidGrammar, match=reason) as caught:
        _rules(f'root ::= "a"\n  {constructor}(0, {token})', VOCABULARY)
    assert (caught.value.line, caught.value.column) == (2, 7 + len(constructor))


@pytest.mark.contract("GBNF-4")
def test_ordinary_token_ids_are_taken() -> None:
    assert _rules("root ::= Token(0, 1)", VOCABULARY).bodies["root"] == Token(frozenset({0, 1}))


@pytest.mark.contract("GBNF-5")
@pytest.mark.parametrize(
    "call",
    [
        'TagDispatch(("a", root), loop_after_dispatch=true)',
        "TokenTagDispatch((5, root), excludes=(3, 4))",
        'Regex("a+", json_string=true)',
        "Substring('abc')",
        "Regex ()",
    ],
)
def test_other_constructors_are_refused(call: str) -> None:
    with pytest.raises(InvalidGrammar, match="is not supported") as caught:
        _rules(f'root ::= "x" |\n {call}')
    assert (caught.value.line, caught.value.column) == (2, 2)


@pytest.mark.contract("GBNF-5")
@pytest.mark.parametrize("attribute", ["[max_tokens=10]", "[temperature=0.5]", '[capture="x"]', "[capture]"])
def test_attributes_of_a_rule_are_refused(attribute: str) -> None:
    for before in ("", 'a ::= "b"\n'):
        with pytest.raises(InvalidGrammar, match="sampling belongs to the request") as caught:
            _rules(f'{before}root{attribute} ::= "a"')
        assert (caught.value.line, caught.value.column) == (1 + bool(before), 5)


@pytest.mark.contract("GBNF-2", "ERR-1")
@pytest.mark.parametrize(
    ("source", "line", "column", "reason"),
    [
        ("root", 1, 5, "expected ::= after the rule name 'root', found the end of the text"),
        ('root := "a"', 1, 6, "expected ::="),
        ('root = "a"', 1, 6, "expected ::="),
        ('::= "a"', 1, 1, "expected a rule name"),
        ('root ::= "a"\n::= "b"', 2, 1, "expected an expression or the next rule"),
        ('"a"', 1, 1, "expected a rule name"),
        ("root ::=", 1, 9, "expected an expression"),
        ('root ::= # c\nx ::= "a"', 2, 1, "expected an expression"),
        ('root ::= ("a"\nx ::= "b"', 2, 1, "expected ) for the group opened at line 1, column 10"),
        ('root ::= ("a" ("b")', 1, 20, "expected ) for the group opened at line 1, column 10"),
        ('root ::= "a")', 1, 13, "no group is open"),
        ('root ::= "a" x ::= "b"', 1, 14, "expected a new line"),
        ("root ::= *", 1, 10, "expected something to repeat"),
        ('root ::= "a" | +', 1, 16, "expected something to repeat"),
        ('root ::= "a"*?', 1, 14, "expected something to repeat"),
        ('root ::= "a"{2}{3}', 1, 16, "expected something to repeat"),
        ("root ::= 'a'", 1, 10, "double quotes"),
        ("root ::= <[5]>", 1, 10, "Token(id)"),
        ("root ::= !<[5]>", 1, 10, "ExcludeToken(id)"),
        ('root ::= "a" , "b"', 1, 14, "expected an expression or the next rule"),
        ('root ::= "a";', 1, 13, "found ';'"),
        ('root ::= "a" (= "b") "c"', 1, 22, "a lookahead stands at the end"),
        ('root ::= (= "b")', 1, 10, "expected an expression after ::="),
        ('root ::= ("a" (= "b"))', 1, 15, "expected ) for the group"),
        ('root ::= "a" (= "b"', 1, 20, "closes the lookahead"),
        ('root ::= "a" (= )', 1, 17, "expected an expression after (="),
        ('root ::= "a" (= "b" (= "c"))', 1, 21, "closes the lookahead"),
        ("root ::= Token()", 1, 16, "expected a token id"),
        ("root ::= Token(-1)", 1, 16, "expected a token id"),
        ('root ::= Token("a")', 1, 16, "expected a token id"),
        ("root ::= Token(1,)", 1, 18, "expected a token id"),
        ("root ::= Token(1 2)", 1, 18, "expected , or )"),
        ("root ::= Token(1", 1, 17, "expected , or )"),
        ("root ::= Token(ids=1)", 1, 16, "expected a token id"),
        ("root ::= Token(4294967393)", 1, 16, "at most"),
        ("root ::= ExcludeToken(" + "9" * 5000 + ")", 1, 23, "at most"),
        ('root ::= "a"\n\nroot ::= "b"', 3, 1, "already defined at line 1"),
    ],
)
def test_error_names_line_column_and_what_was_expected(source: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(InvalidGrammar) as caught:
        _rules(source)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


@pytest.mark.contract("SEC-2")
def test_groups_nest_to_the_limit_and_no_further() -> None:
    rules = _rules("root ::= " + '("a" | "bc" ' * 256 + ")*" * 256)
    for body in rules.bodies.values():
        assert sum(1 for _ in walk(body)) < 100
    with pytest.raises(LimitExceeded) as caught:
        _rules("root ::= " + "(" * 257 + ")" * 257)
    assert (caught.value.limit, caught.value.given) == ("nesting_depth", 257)
