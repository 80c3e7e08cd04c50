"""Reading regular expressions: trees with offsets, every refusal with its place, limits before work."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.charset import ANY, EMPTY, CharSet
from ninfer_vllm.automata.regex import Branch, CharClass, Concat, Node, Regex, Repeated, Union, fold, parse
from ninfer_vllm.errors import ConstraintError, InvalidRegex, LimitExceeded
from tests.support.effort import cpu_within

REFUSED = [
    ("a^", 1, "the anchor ^"),
    ("^^", 1, "the anchor ^"),
    ("(^a)", 1, "the anchor ^"),
    ("(a$)", 2, "the anchor $"),
    ("a$b", 1, "the anchor $"),
    ("$$", 0, "the anchor $"),
    ("(?:a|^b)c", 5, "the anchor ^"),
    ("a$*", 1, "the anchor $"),
    ("(a)\\1", 3, "back-reference"),
    ("(?<n>a)\\k<n>", 7, "back-reference"),
    ("a(?=b)", 1, "look-around"),
    ("a(?!b)", 1, "look-around"),
    ("(?<=a)b", 0, "look-around"),
    ("(?<!a)b", 0, "look-around"),
    ("x\\bx", 1, "word boundary"),
    ("\\B", 0, "word boundary"),
    ("[\\B]", 1, "word boundary"),
    ("\\p{L}", 0, "property class"),
    ("[\\P{L}]", 1, "property class"),
    ("(?i)a", 0, "flags"),
    ("a(?s:b)", 1, "flags"),
    ("(?-i:b)", 0, "flags"),
    ("(?P<n>a)", 0, "named group"),
    ("(?<1>a)", 0, "group name"),
    ("(?<n>a)(?<n>b)", 7, "used twice"),
    ("(?>a)", 0, "atomic"),
    ("(?#a)", 0, "comment"),
    ("\\ud83d\\ude00", 0, "surrogate"),
    ("[\\ud800-\\udfff]", 1, "surrogate"),
    ("a\ud800", 1, "surrogate"),
    ("\\q", 0, "unknown escape \\q"),
    ("ab\\é", 2, "unknown escape"),
    ("\\a", 0, "unknown escape"),
    ("\\01", 0, "octal"),
    ("\\x4", 0, "two hexadecimal"),
    ("\\u{41}", 0, "four hexadecimal"),
    ("\\u004", 0, "four hexadecimal"),
    ("\\u 041", 0, "four hexadecimal"),
    ("\\c1", 0, "one ASCII letter"),
    ("\\", 0, "backslash at the end"),
    ("[\\", 1, "backslash at the end"),
    ("[b-a]", 2, "range is empty"),
    ("[\\w-z]", 3, "between two characters"),
    ("[a-\\d]", 2, "between two characters"),
    ("[]", 0, "empty class"),
    ("x[ab", 1, "not closed"),
    ("x[", 1, "not closed"),
    ("[a-", 0, "not closed"),
    ("a{2,1}", 1, "reversed"),
    ("a{,3}", 1, "{m}, {m,} or {m,n}"),
    ("a{", 1, "{m}, {m,} or {m,n}"),
    ("a{x}", 1, "{m}, {m,} or {m,n}"),
    ("a{1", 1, "{m}, {m,} or {m,n}"),
    ("a{٣}", 1, "{m}, {m,} or {m,n}"),
    ("a{4294967298}", 1, "at most"),
    ("a{1," + "9" * 5000 + "}", 1, "at most"),
    ("*a", 0, "nothing to repeat"),
    ("a|*", 2, "nothing to repeat"),
    ("(?:+)", 3, "nothing to repeat"),
    ("^*", 1, "nothing to repeat"),
    ("a++", 2, "nothing to repeat"),
    ("a{2}{3}", 4, "nothing to repeat"),
    ("a*??", 3, "nothing to repeat"),
    ("(a", 0, "not closed"),
    ("a((b)", 1, "not closed"),
    ("a)", 1, "closes no group"),
    ("a]", 1, "closes nothing"),
    ("a}", 1, "closes nothing"),
]


@pytest.mark.contract("RGX-5", "RGX-6", "ERR-1")
@pytest.mark.parametrize(("text", "offset", "reason"), REFUSED, ids=[ascii(text)[:30] for text, _, _ in REFUSED])
def test_refusal_names_the_construct_and_its_offset(text: str, offset: int, reason: str) -> None:
    with pytest.raises(InvalidRegex) as caught:
        parse(text)
    assert caught.value.offset == offset
    assert reason in caught.value.reason
    assert caught.value.place == {"offset": offset}


def test_tree_keeps_offsets_and_anchors_a_branch() -> None:
    a, b = CharClass(CharSet.from_chars("a"), 1), CharClass(CharSet.from_chars("b"), 4)
    assert parse("^a|(b)+$|") == Regex(
        (Branch(a, True, False), Branch(Repeated(b, 1, None, 6), False, True), Branch(Concat((), 9), False, False))
    )


def test_group_of_alternatives_is_a_union() -> None:
    (branch,) = parse("(?<n>a|b)").branches
    assert isinstance(branch.node, Union)
    assert branch.node.offset == 0
    assert [item.offset for item in branch.node.items] == [5, 7]


def test_negated_empty_class_is_any_character_and_full_negation_none() -> None:
    assert [branch.node for branch in parse("[^]|[^\\s\\S]").branches] == [CharClass(ANY, 0), CharClass(EMPTY, 4)]


def test_character_beyond_the_basic_plane_is_one_character() -> None:
    (branch,) = parse("[😀-😎]").branches
    assert branch.node == CharClass(CharSet.from_ranges([(0x1F600, 0x1F60E)]), 0)


@pytest.mark.parametrize("text", ["a{2}", "a{2,}", "a{2,3}", "a*", "a+", "a?"])
def test_lazy_repeat_is_the_same_tree(text: str) -> None:
    assert parse(text + "?") == parse(text)


@pytest.mark.contract("RGX-8", "SEC-2")
@pytest.mark.parametrize(
    ("text", "limit", "given"),
    [
        ("a" * 65_537, "regex_chars", 65_537),
        ("a{65537}", "regular_states", 65_537),
        ("(ab{300}){300}", "regular_states", 90_300),
        ("((a{2000000000}){2000000000}){2000000000}", "regular_states", 2_000_000_000),
        ("(?:a|b){40000}", "regular_states", 80_000),
        ("a{40000}|b{40000}", "regular_states", 80_000),
        ("a{65537,}", "regular_states", 65_537),
        ("(" * 257 + ")" * 257, "nesting_depth", 257),
    ],
)
def test_limit_is_checked_before_the_work(text: str, limit: str, given: int) -> None:
    with cpu_within(30):
        with pytest.raises(LimitExceeded) as caught:
            parse(text)
        assert (caught.value.limit, caught.value.given) == (limit, given)


@pytest.mark.contract("RGX-8")
@pytest.mark.parametrize(
    "text", ["a{65536}", "a" * 65_536, "(" * 256 + "a" + ")" * 256, "(?:)" * 100, "(){2147483647}"]
)
def test_expression_at_the_limit_is_read(text: str) -> None:
    assert parse(text).branches


def test_fold_gives_children_in_order_whatever_the_depth() -> None:
    (branch,) = parse("(?:a|b" * 256 + ")*" * 256).branches

    def spell(node: Node, below: tuple[str, ...]) -> str:
        return chr(node.chars.ranges[0][0]) if isinstance(node, CharClass) else "".join(below)

    assert fold(branch.node, spell) == "ab" * 256


@pytest.mark.contract("SEC-1")
@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), st.text("ab()[]{}|*+?^$\\.-,:<>=!dswuxpk019\ud800é😀", max_size=40)))
def test_any_text_is_read_or_refused_with_a_typed_error(text: str) -> None:
    with cpu_within(30):
        try:
            parse(text)
        except ConstraintError as error:
            offset = error.place.get("offset", 0)
            assert isinstance(offset, int)
            assert 0 <= offset <= len(text)
