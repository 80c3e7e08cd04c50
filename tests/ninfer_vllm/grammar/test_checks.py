"""Facts about grammars: what is undefined, productive, recursive; size; pruning."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ninfer_vllm.automata.charset import CharSet
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.errors import LimitExceeded, Unsatisfiable
from ninfer_vllm.grammar.checks import (
    count_nodes,
    left_recursive_rules,
    nullable_rules,
    productive_rules,
    prune,
    reachable_rules,
    recursive_rules,
    undefined_rules,
)
from ninfer_vllm.grammar.ir import (
    EMPTY_TEXT,
    Alternation,
    Chars,
    Expr,
    Grammar,
    Literal,
    Regular,
    Repeat,
    Rule,
    Sequence,
    Token,
    text,
    walk,
)
from tests.support.grammars import ALPHABET, grammars
from tests.support.oracles.recogniser import Recogniser

FEWER = settings(max_examples=40, deadline=None)

A, B = text("a"), text("b")


def grammar(**rules: Expr) -> Grammar:
    return Grammar(rules, next(iter(rules)))


def test_undefined_rules_are_named_once_in_order() -> None:
    assert undefined_rules(grammar(root=Sequence((Rule("x"), Rule("y"), Rule("x"))))) == ["x", "y"]
    assert undefined_rules(Grammar({}, "root")) == ["root"]


def test_reachable_rules_follow_references_from_the_root() -> None:
    assert reachable_rules(grammar(root=Repeat(Rule("x"), 0, 1), x=A, y=Rule("root"))) == {"root", "x"}


def test_productive_rules_derive_a_finite_text() -> None:
    rules = grammar(root=Alternation((Rule("loop"), A)), loop=Sequence((A, Rule("loop"))), none=Alternation(()))
    assert productive_rules(rules) == {"root"}
    assert productive_rules(grammar(x=Chars(CharSet(())), y=Token(frozenset()), z=Repeat(Rule("x"), 0, 2))) == {"z"}
    assert productive_rules(grammar(x=Regular(Dfa((((CharSet.from_chars("a"), 0),),), frozenset())))) == set()


def test_nullable_rules_derive_the_empty_text() -> None:
    rules = grammar(x=Sequence((Rule("y"), Rule("y"))), y=Repeat(A, 0, 1), z=Sequence((Rule("y"), A)), e=EMPTY_TEXT)
    assert nullable_rules(rules) == {"x", "y", "e"}


@pytest.mark.parametrize(
    ("body", "recurs"),
    [
        (Sequence((Rule("x"), A)), True),
        (Sequence((Repeat(A, 0, 1), Rule("x"))), True),
        (Sequence((A, Rule("x"))), False),
        (Repeat(Rule("x"), 2, 3), True),
        (Alternation((A, Sequence((EMPTY_TEXT, Rule("x"))))), True),
        (Repeat(Rule("x"), 0, 0), False),
    ],
)
def test_left_recursion_is_found_behind_what_can_be_empty(body: Expr, recurs: bool) -> None:
    assert left_recursive_rules(grammar(x=Alternation((body, A)))) == ({"x"} if recurs else set())


def test_recursive_rules_are_those_on_a_cycle() -> None:
    rules = grammar(root=Rule("x"), x=Sequence((A, Rule("y"))), y=Alternation((Rule("x"), A)), z=Rule("z"))
    assert recursive_rules(rules) == {"x", "y", "z"}


@pytest.mark.contract("CMP-9")
def test_size_is_bounded_before_a_shared_expression_is_walked_out() -> None:
    expr: Expr = A
    for _ in range(60):
        expr = Sequence((expr, expr))
    with pytest.raises(LimitExceeded) as caught:
        count_nodes(grammar(root=expr))
    assert caught.value.limit == "grammar_nodes"


def test_size_counts_the_states_and_edges_of_automata() -> None:
    automaton = Dfa((((CharSet.from_chars("a"), 1),), ()), frozenset([1]))
    assert count_nodes(grammar(root=Sequence((A, Regular(automaton))))) == 5


@pytest.mark.contract("ERR-6")
def test_deep_nesting_is_no_danger() -> None:
    expr: Expr = A
    for _ in range(10_000):
        expr = Repeat(Sequence((expr, Alternation((B,)))), 1, 2)
    rules = prune(grammar(root=expr))
    assert count_nodes(rules) < count_nodes(grammar(root=expr))
    assert left_recursive_rules(rules) == set()


@pytest.mark.contract("CMP-9")
def test_long_chains_of_rules_take_linear_time() -> None:
    rules = {f"x{n}": Sequence((A, Rule(f"x{n + 1}"))) for n in range(10_000)} | {"x10000": B}
    assert len(prune(Grammar(rules, "x0")).rules) == 10_001
    assert recursive_rules(Grammar(rules, "x0")) == set()


@pytest.mark.contract("GBNF-3")
@pytest.mark.parametrize(
    "body", [Rule("root"), Sequence((A, Rule("root"))), Repeat(Rule("root"), 3, 3), Rule("absent")]
)
def test_prune_refuses_a_root_without_finite_text(body: Expr) -> None:
    with pytest.raises(Unsatisfiable):
        prune(grammar(root=body))


def test_prune_drops_what_adds_nothing() -> None:
    rules = grammar(
        root=Alternation((Sequence((Rule("dead"), A)), Sequence((Rule("void"), B, Repeat(Rule("dead"), 0, 2))))),
        dead=Sequence((A, Rule("dead"))),
        void=Repeat(Rule("void"), 0, 3),
        unused=A,
    )
    assert prune(rules).rules == {"root": B}


def test_prune_leaves_an_already_pruned_grammar_as_it_is() -> None:
    rules = grammar(root=Alternation((Sequence((A, Rule("x"))), B)), x=Repeat(Rule("root"), 0, None))
    assert all(prune(rules).rules[name] is body for name, body in rules.rules.items())


@FEWER
@given(grammars(), st.lists(st.text(st.sampled_from(ALPHABET), max_size=5), max_size=5))
def test_prune_keeps_the_language(rules: Grammar, texts: list[str]) -> None:
    assume("r0" in productive_rules(rules))
    before, after = Recogniser(rules), Recogniser(prune(rules))
    for value in ["", *texts]:
        assert before.accepts(value) == after.accepts(value)
        assert before.is_prefix(value) == after.is_prefix(value)


@FEWER
@given(grammars())
def test_pruned_rules_are_all_reachable_and_productive(rules: Grammar) -> None:
    assume("r0" in productive_rules(rules))
    pruned = prune(rules)
    assert set(pruned.rules) == reachable_rules(pruned) == productive_rules(pruned)
    assert not any(node == Alternation(()) for body in pruned.rules.values() for node in walk(body))
    assert prune(pruned).rules == pruned.rules


def test_prune_trims_automata() -> None:
    dead = Dfa((((CharSet.from_chars("a"), 1), (CharSet.from_chars("b"), 2)), (), ()), frozenset([1]))
    assert prune(grammar(root=Regular(dead))).rules["root"] == Regular(dead.trimmed())
    assert isinstance(prune(grammar(root=Regular(Dfa(((),), frozenset([0]))))).rules["root"], Literal)
