"""The language of a regular expression, against Node.js, the `regex` module and the open cases."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import regex as authority
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.escapes import PUNCTUATION
from ninfer_vllm.automata.expressions import pattern_dfa
from ninfer_vllm.automata.regex import parse
from ninfer_vllm.errors import ConstraintError, InvalidRegex, Unsatisfiable
from ninfer_vllm.grammar.checks import undefined_rules
from ninfer_vllm.grammar.ir import NOTHING, Rule, walk
from ninfer_vllm.languages.regex import lower_regex
from tests.support.cases import misjudged, open_cases
from tests.support.effort import cpu_within
from tests.support.oracles.ecmascript import Node, program
from tests.support.oracles.recogniser import Recogniser

WHITE = "\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
ATOMS = [
    *((char, char) for char in "aaabbé漢😀 _0"),
    (".", "[^\\n\\r\\u2028\\u2029]"),
    ("\\d", "[0-9]"),
    ("\\D", "[^0-9]"),
    ("\\w", "[0-9A-Za-z_]"),
    ("\\W", "[^0-9A-Za-z_]"),
    ("\\s", f"[{WHITE}]"),
    ("\\S", f"[^{WHITE}]"),
    ("[ab]", "[ab]"),
    ("[^a]", "[^a]"),
    ("[^]", "[\\u0000-\\U0010ffff]"),
    ("[a-c\\s]", f"[a-c{WHITE}]"),
    ("[^\\w\\-]", "[^0-9A-Za-z_\\-]"),
    ("[\\S\\n]", f"(?:[^{WHITE}]|\\n)"),
    ("[😀-😎é-]", "[😀-😎é\\-]"),
    ("\\u2028", "\\u2028"),
    ("\\x41", "A"),
    ("\\cJ", "\\n"),
    ("\\0", "\\x00"),
    ("\\t", "\\t"),
    ("\\.", "\\."),
    ("[\\b]", "\\x08"),
    ("[^\\s\\S]", "(?!)"),
    ("", ""),
]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{0}", "{2}", "{1,}", "{0,2}", "{1,3}?"]
SHORT = ["".join(chars) for size in range(5) for chars in product("ab", repeat=size)]
ODD = [
    "\n",
    "\r",
    "\u2028",
    "\u00a0",
    "\ufeff",
    "\u180e",
    "\u0085",
    "\0",
    "\t",
    "\b",
    "A",
    "0",
    "_",
    " ",
    ".",
    "-",
    "é",
]
TEXTS = [*SHORT, *ODD, "漢", "😀", "😎", "😀a", "a😀", "a\n", "aé漢", "a b", "0_"]

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    if not program():
        pytest.skip("Node.js is not installed")
    engine = Node()
    yield engine
    engine.close()


def _expressions() -> st.SearchStrategy[Pair]:
    """The same random expression in ECMAScript's syntax and in that of the `regex` module."""

    def grown(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
        several = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            several.map(lambda items: ("".join(one for one, _ in items), "".join(other for _, other in items))),
            several.map(lambda items: tuple(f"(?:{'|'.join(side)})" for side in zip(*items, strict=True))),
            st.tuples(inner, st.sampled_from(REPEATS)).map(
                lambda pair: (f"({pair[0][0]}){pair[1]}", f"(?:{pair[0][1]}){pair[1]}")
            ),
        )

    return st.recursive(st.sampled_from(ATOMS), grown, max_leaves=8)


def _accepts(source: str) -> list[bool]:
    try:
        recogniser = Recogniser(lower_regex(source))
    except Unsatisfiable:
        return [False] * len(TEXTS)
    return [recogniser.accepts(text) for text in TEXTS]


@pytest.mark.contract("RGX-1", "RGX-2", "RGX-3", "RGX-4")
@settings(max_examples=250, deadline=None)
@given(_expressions())
def test_language_is_that_of_the_regex_module(expression: Pair) -> None:
    ours, theirs = expression
    compiled = authority.compile(theirs, authority.V0)
    expected = [compiled.fullmatch(text) is not None for text in TEXTS]
    assert _accepts(ours) == expected


@pytest.mark.contract("RGX-1", "RGX-2", "RGX-3", "RGX-4")
@settings(max_examples=250, deadline=None)
@given(expression=_expressions())
def test_language_is_that_of_a_real_ecmascript_engine(node: Node, expression: Pair) -> None:
    assert _accepts(expression[0]) == node.full_match(expression[0], TEXTS)


@pytest.mark.contract("RGX-7", "JST-5", "RGX-5")
@settings(max_examples=150, deadline=None)
@given(branches=st.lists(st.tuples(st.sampled_from(["", "^"]), _expressions(), st.sampled_from(["", "$"])), max_size=3))
def test_search_is_that_of_a_real_ecmascript_engine(node: Node, branches: list[tuple[str, Pair, str]]) -> None:
    source = "|".join(start + ours + end for start, (ours, _), end in branches)
    automaton = pattern_dfa(source)
    assert [automaton.accepts(text) for text in TEXTS] == node.search(source, TEXTS)


@pytest.mark.contract("RGX-5", "RGX-6")
@settings(max_examples=600, deadline=None)
@given(source=st.text("ab()[]{}|*+?^$\\.-,:0123dswSnxuté😀", max_size=12))
def test_what_is_read_is_read_as_ecmascript_reads_it(node: Node, source: str) -> None:
    try:
        parse(source)
    except ConstraintError:
        assume(False)
    # With `u` the engine refuses needless escapes of punctuation, which RGX-4 supports.
    plain = _without_needless_escapes(source)
    assert _accepts(source) == node.full_match(plain, TEXTS)


def _without_needless_escapes(source: str) -> str:
    needless = PUNCTUATION - set("^$\\.*+?()[]{}|/-")
    kept, at = [], 0
    in_class = False
    while at < len(source):
        pair = source[at : at + 2]
        if pair[0] == "\\":
            drop = pair[1] in needless or (pair[1] == "-" and not in_class)
            kept.append(pair[1] if drop else pair)
            at += 2
        else:
            in_class = pair[0] == "[" or (in_class and pair[0] != "]")
            kept.append(pair[0])
            at += 1
    return "".join(kept)


@pytest.mark.contract("RGX-6")
def test_every_refused_syntax_error_is_one_for_the_engine_too(node: Node) -> None:
    for source in [
        "a{2,1}",
        "*a",
        "(",
        ")",
        "[b-a]",
        "\\q",
        "a++",
        "a{",
        "]",
        "}",
        "[\\w-z]",
        "\\01",
        "\\c1",
        "[a",
        "\\",
    ]:
        with pytest.raises(InvalidRegex):
            lower_regex(source)
        assert node.full_match(source, []) is None, source


@pytest.mark.contract("RGX-1", "RGX-5", "RGX-6")
@pytest.mark.parametrize("case", open_cases("regex"))
def test_open_case(case: dict[str, Any]) -> None:
    source = case["constraint"]["regex"]
    refusable = {"re-004", "re-008", "re-021", "re-025"}
    if case["expect_error"] or case["id"] in refusable:
        with pytest.raises((InvalidRegex, Unsatisfiable)):
            lower_regex(source)
    else:
        assert misjudged(case, Recogniser(lower_regex(source)).accepts) == []


@pytest.mark.contract("RGX-1")
def test_empty_expression_allows_only_empty_content() -> None:
    recogniser = Recogniser(lower_regex(""))
    assert recogniser.accepts("")
    assert not recogniser.is_prefix("a")


@pytest.mark.contract("RGX-5")
@pytest.mark.parametrize("source", ["^a|b$", "^a$|^b$", "a|b", "^(?:a|b)$"])
def test_anchors_at_the_ends_change_nothing_in_a_full_match(source: str) -> None:
    recogniser = Recogniser(lower_regex(source))
    assert [text for text in ("a", "b", "ab", "xa", "bx", "") if recogniser.accepts(text)] == ["a", "b"]


@pytest.mark.contract("RGX-6", "CMP-10")
@pytest.mark.parametrize("source", ["[^\\s\\S]", "a[^\\s\\S]+|[^\\s\\S]{2}"])
def test_expression_without_a_text_is_unsatisfiable(source: str) -> None:
    with pytest.raises(Unsatisfiable):
        lower_regex(source)


@pytest.mark.contract("RGX-8", "SEC-2")
@pytest.mark.parametrize(
    "source",
    [
        "(?:a|b" * 256 + ")*" * 256,
        "(a|b)" * 13_000,
        "\\W" * 32_000,
        "|".join(f"{number:x}" for number in range(13_000)),
        "[" + "ab" * 32_000 + "]",
        "(?:(?:(?:a{0,9}){0,9}b?){0,9}){0,80}",
        "(x+x+)+y",
        "[a-z]{1,5000}",
    ],
    ids=["deep", "long", "classes", "wide", "class", "repeats", "ambiguous", "counted"],
)
def test_large_expression_is_lowered_fast_and_shallow(source: str) -> None:
    with cpu_within(20):
        grammar = lower_regex(source)
    assert pickle.loads(pickle.dumps(grammar)).root == grammar.root
    assert undefined_rules(grammar) == []
    nodes = [node for body in grammar.rules.values() for node in walk(body)]
    assert NOTHING not in nodes
    assert Rule(grammar.root) not in nodes
