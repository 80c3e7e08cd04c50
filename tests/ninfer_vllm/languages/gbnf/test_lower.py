"""The language of a grammar text, against the xgrammar core's reader, lark, and hand-written documents."""

from __future__ import annotations

import pickle
from itertools import product
from typing import Any

import lark
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ninfer_vllm.errors import InvalidGrammar, LimitExceeded
from ninfer_vllm.grammar.checks import undefined_rules
from ninfer_vllm.grammar.ir import Grammar, Rule, walk
from ninfer_vllm.languages.gbnf import lower_gbnf
from ninfer_vllm.vocabulary import TokenClass, Vocabulary
from tests.support.cases import misjudged, open_cases
from tests.support.effort import cpu_within
from tests.support.oracles.recogniser import Recogniser
from tests.support.oracles.xgrammar_text import Core

WORDS = ["".join(chars) for size in range(5) for chars in product("ab", repeat=size)] + ["c", "ac", "é", "aé"]
ATOMS = [
    ('"a"', '"a"'),
    ('"b"', '"b"'),
    ('"ab"', '"ab"'),
    ("[ab]", '("a"|"b")'),
    ("[^ac-\\U0010FFFF]", '("b"|" ")'),
    ("x", "x"),
    ("y", "y"),
]
REPEATS = [("*", "*"), ("+", "+"), ("?", "?"), ("{2}", "~2"), ("{0,2}", "~0..2"), ("{1,3}", "~1..3")]

ARITHMETIC = """
# sums over integers and names
root ::= sum ("=" sum)?
sum ::= term (
    # left to right
    [-+] term
)*
term ::= value ([*/] value)*
value ::= [0-9]+ | [a-z] [a-z0-9]* |
  "(" sum ")"
"""
JSON_TEXT = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""
LIST = 'root ::= ("- " item)+\nitem ::= [^\\n]+ "\\n"\n'
CHESS = r"""
root ::= "1. " turn ("\n" [1-9] [0-9]? ". " turn)*
turn ::= move " " move
move ::= (pawn | piece | castle) [+#]?
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
castle ::= "O-O" "-O"?
"""
JAPANESE = "root ::= kana+ ([ \\t\\n] kana+)*\nkana ::= hiragana | [ァ-ヿ] | [、-〾] | [一-鿿]\nhiragana ::= [ぁ-ゟ]\n"

DOCUMENTS = [
    (ARITHMETIC, ["1+2", "(a1*3)=x", "12"], ["", "1+", "(1", "1=2=3", "A"]),
    (JSON_TEXT, ["{}", '{"a":[1,-2.5e+3,"\\u00e9\\n"],"b":{"c":null}}\n\t'], ["[]", '{"a"}', '{"a":1,}', '{"\n":1}']),
    (LIST, ["- a\n", "- a\n- 漢 b\n"], ["", "- a", "a\n", "- \n"]),
    (CHESS, ["1. e4 e5", "1. e4 Nf6+\n2. exd5 O-O-O#\n10. a8=Q Rad1"], ["1. e4", "1. e9 e5", "2. e4 e5"]),
    (JAPANESE, ["ひらがな", "カタカナ 漢字、", "あ\nア"], ["", "a", "ひ  ら", " ひ"]),
    ('root ::= root "+" n | n\nn ::= [0-9]+', ["1", "1+22+3"], ["", "+1", "1+"]),
    ('root ::= "a" root "b" | ""', ["", "ab", "aaabbb"], ["aab", "ba"]),
    ('root ::= .+ "!" .{2}', ["\n!😀é", "a!!b!"], ["!ab", "a!b"]),
    ('root ::= "a" (= "c") \n', ["a"], ["ac", ""]),
]


@pytest.fixture(scope="module")
def core() -> Core:
    return Core()


def _grown(inner: Any) -> Any:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        several.map(lambda items: tuple(f"({' '.join(side)})" for side in zip(*items, strict=True))),
        several.map(lambda items: tuple(f"({' | '.join(side)})" for side in zip(*items, strict=True))),
        st.tuples(inner, st.sampled_from(REPEATS)).map(
            lambda pair: (f"({pair[0][0]}){pair[1][0]}", f"({pair[0][1]}){pair[1][1]}")
        ),
    )


EXPRESSIONS = st.recursive(st.sampled_from(ATOMS), _grown, max_leaves=6)
SMALL = st.recursive(st.sampled_from(ATOMS), _grown, max_leaves=3)
"""Lark builds every parse of an ambiguous text, so its share is smaller."""


def _texts(root: str, x: str, y: str) -> str:
    # The alternative in front keeps every rule from being nothing but a repetition of itself.
    return f'root ::= {root}\nx ::= "b" | {x}\ny ::= "a" "b" | {y}\n'


@pytest.mark.contract("GBNF-1")
@settings(max_examples=150, deadline=None)
@given(expressions=st.tuples(EXPRESSIONS, EXPRESSIONS, EXPRESSIONS))
def test_language_is_that_of_the_core(core: Core, expressions: tuple[Any, Any, Any]) -> None:
    text = _texts(*(ours for ours, _ in expressions))
    recogniser = Recogniser(lower_gbnf(text))
    assert [(recogniser.is_prefix(word), recogniser.accepts(word)) for word in WORDS] == core.judge(text, WORDS)


@pytest.mark.contract("GBNF-1")
@settings(max_examples=60, deadline=None)
@given(expressions=st.tuples(SMALL, SMALL, SMALL))
def test_language_is_that_of_lark(expressions: tuple[Any, Any, Any]) -> None:
    text = _texts(*(ours for ours, _ in expressions))
    root, x, y = (theirs for _, theirs in expressions)
    parser = lark.Lark(f'start: {root}\nx: "b" | {x}\ny: "a" "b" | {y}\n', parser="earley", lexer="dynamic_complete")
    recogniser = Recogniser(lower_gbnf(text))
    assert [recogniser.accepts(word) for word in WORDS] == [_lark_accepts(parser, word) for word in WORDS]


def _lark_accepts(parser: lark.Lark, word: str) -> bool:
    try:
        parser.parse(word)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


@pytest.mark.contract("GBNF-1", "GBNF-6")
@pytest.mark.parametrize(("text", "accepts", "rejects"), DOCUMENTS)
def test_documented_constructs(text: str, accepts: list[str], rejects: list[str]) -> None:
    recogniser = Recogniser(lower_gbnf(text))
    assert misjudged({"accept": accepts, "reject": rejects}, recogniser.accepts) == []
    assert all(recogniser.is_prefix(document[:size]) for document in accepts for size in range(len(document)))


@pytest.mark.contract("GBNF-1")
@pytest.mark.parametrize("text", [ARITHMETIC, LIST, CHESS, JAPANESE])
def test_the_core_reads_the_documented_constructs_alike(core: Core, text: str) -> None:
    words = next(accepts + rejects for source, accepts, rejects in DOCUMENTS if source == text)
    recogniser = Recogniser(lower_gbnf(text))
    assert core.judge(text, words) == [(recogniser.is_prefix(word), recogniser.accepts(word)) for word in words]


@pytest.mark.contract("GBNF-1", "GBNF-2", "GBNF-3")
@pytest.mark.parametrize("case", open_cases("gbnf"))
def test_open_case(case: dict[str, Any]) -> None:
    text = case["constraint"]["grammar"]
    if case["expect_error"]:
        with pytest.raises(InvalidGrammar):
            lower_gbnf(text)
    else:
        assert misjudged(case, Recogniser(lower_gbnf(text)).accepts) == []


@pytest.mark.contract("GBNF-3")
@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('root ::= "a"\n  missing | missing', 2, 3, "rule 'missing' is not defined"),
        ('root ::= "a"\nunused ::= other', 2, 12, "rule 'other' is not defined"),
        ('root ::= "a" (= other)', 1, 17, "rule 'other' is not defined"),
        ('root ::= Foo("a")', 1, 10, "only constructors are Token and ExcludeToken"),
        ("root ::= a.b\na ::= [a]", 1, 10, "apart from names"),
        ('start ::= "a"', 1, 1, "a rule named root"),
        ("", 1, 1, "a rule named root"),
        ("# nothing", 1, 1, "a rule named root"),
        ('x ::= "a"\nroot ::= "a" root', 2, 1, "no finite text"),
        ('root ::= "a" x\nx ::= y+\ny ::= "b" x', 1, 1, "no finite text (nor does any of: x, y)"),
        ("root ::= x\nx ::= x{3}", 1, 1, "no finite text"),
        ("root ::= root", 1, 1, "no finite text"),
        ("root ::= [^\\x00-\\U0010FFFF]", 1, 1, "no finite text"),
        ('root ::= "a\ud800"', 1, 12, "surrogate"),
    ],
)
def test_grammar_without_a_language_is_refused_with_its_place(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(InvalidGrammar) as caught:
        lower_gbnf(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


@pytest.mark.contract("GBNF-3")
@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('root ::= "a" | x\nx ::= "b" x', 'root ::= "a"'),
        ('root ::= "a" x?\nx ::= x{3}', 'root ::= "a"'),
        ('root ::= "a"\nx ::= x{3}', 'root ::= "a"'),
        ('root ::= "a" x\nx ::= y{0,2}\ny ::= x*', 'root ::= "a"'),
        ('root ::= "a"\nunused ::= "b"', 'root ::= "a"'),
    ],
)
def test_what_adds_nothing_to_the_language_is_dropped(text: str, same: str) -> None:
    assert lower_gbnf(text) == lower_gbnf(same)


@pytest.mark.contract("GBNF-4")
def test_excluding_every_ordinary_token_leaves_nothing() -> None:
    vocabulary = Vocabulary((b"a", b"b", b"</s>"), bytes([0, 0, TokenClass.EOS]), {"</s>": 2})
    with pytest.raises(InvalidGrammar, match="no finite text"):
        lower_gbnf("root ::= ExcludeToken(0, 1)", vocabulary)
    assert lower_gbnf('root ::= "a" | ExcludeToken(0, 1)', vocabulary) == lower_gbnf('root ::= "a"')
    assert lower_gbnf("root ::= ExcludeToken(0)", vocabulary).root == "root"


@pytest.mark.parametrize("text", ['root ::= "a" root | "b"', 'root ::= "a" x\nx ::= root?', 'root ::= ("a" root)* "b"'])
def test_nothing_refers_to_the_root(text: str) -> None:
    grammar = lower_gbnf(text)
    assert Rule(grammar.root) not in _nodes(grammar)
    assert undefined_rules(grammar) == []


@pytest.mark.contract("SEC-2")
def test_text_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(LimitExceeded) as caught:
        lower_gbnf('"' * (2**20 + 1))
    assert (caught.value.limit, caught.value.given) == ("grammar_text_chars", 2**20 + 1)


@pytest.mark.contract("SEC-1", "SEC-2")
@pytest.mark.parametrize(
    "text",
    [
        "root ::= " + '("a" | "bc" ' * 256 + ")*" * 256,
        "root ::= " + " | ".join(f'"{number}"' for number in range(30_000)),
        'root ::= "' + "a" * 1_000_000 + '"',
        "root ::= [" + "ab" * 500_000 + "]",
        'root ::= "a"' + " \n" * 500_000,
        'root ::= "a"' + "\n#" * 500_000,
        "\n".join(f'x{number} ::= "a" x{number + 1}?' for number in range(20_000)) + '\nx20000 ::= "b"\nroot ::= x0',
    ],
    ids=["deep", "wide", "text", "class", "blank", "comments", "chain"],
)
def test_large_text_is_lowered_fast_and_shallow(text: str) -> None:
    with cpu_within(30):
        grammar = lower_gbnf(text)
    assert pickle.loads(pickle.dumps(grammar)).root == grammar.root


@pytest.mark.contract("SEC-1")
@settings(max_examples=500, deadline=None)
@given(
    st.one_of(
        st.text(),
        st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")),
        st.text('rootx ::="a[]-^\\(){}|*+?.,0123#\n\x00é😀', max_size=40).map(lambda body: f"root ::= {body}"),
        st.lists(
            st.sampled_from(
                [
                    "root",
                    "x",
                    " ::= ",
                    "\n",
                    '"a"',
                    "[a-z]",
                    "(",
                    ")",
                    "|",
                    "*",
                    "{2}",
                    "Token(",
                    "1",
                    ",",
                    "(=",
                    "#",
                    ".",
                ]
            ),
            max_size=25,
        ).map("".join),
    )
)
def test_any_text_is_lowered_or_refused_with_a_typed_error(text: str) -> None:
    refusal = None
    with cpu_within(30):
        try:
            grammar = lower_gbnf(text)
        except InvalidGrammar as error:
            refusal = error
    if refusal is None:
        assert undefined_rules(grammar) == []
        return
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert 1 <= refusal.line <= len(lines)
    assert 1 <= refusal.column <= len(lines[refusal.line - 1]) + 2


@pytest.mark.contract("GBNF-1")
@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from(['"a"', "[ab]", "x", "(", ")", "|", "*", "+", "{2}", "{1,2}", " ", "\n", '""', "(=", "[^a]"]),
        min_size=1,
        max_size=9,
    )
)
def test_what_is_read_is_read_as_the_core_reads_it(core: Core, pieces: list[str]) -> None:
    text = f'root ::= {"".join(pieces)}\nx ::= "b" | "b" x\n'
    try:
        recogniser = Recogniser(lower_gbnf(text))
    except InvalidGrammar:
        assert core.judge(text, []) is None
        return
    expected = core.judge(text, WORDS)
    # The core does not take llama.cpp's empty alternatives.
    assume(expected is not None)
    assert [(recogniser.is_prefix(word), recogniser.accepts(word)) for word in WORDS] == expected


def _nodes(grammar: Grammar) -> list[Any]:
    return [node for body in grammar.rules.values() for node in walk(body)]
