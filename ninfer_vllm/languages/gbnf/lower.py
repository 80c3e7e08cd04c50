"""Grammar texts as grammars (GBNF-1 to GBNF-6): parsed, checked with places, reduced to what the root needs."""

from __future__ import annotations

import re

from ninfer_vllm.errors import InvalidGrammar, LimitExceeded, Unsatisfiable
from ninfer_vllm.grammar.checks import count_nodes, productive_rules, prune
from ninfer_vllm.grammar.ir import Grammar, Rule, walk
from ninfer_vllm.languages.gbnf.parser import Rules, parse
from ninfer_vllm.languages.gbnf.source import Source
from ninfer_vllm.languages.gbnf.tokens import TokenDomain
from ninfer_vllm.limits import GRAMMAR_TEXT_CHARS
from ninfer_vllm.vocabulary import Vocabulary

ROOT = "root"
START = "root/start"
"""The fresh root of a grammar whose own root refers to itself; no text can spell it."""

NAMES_SHOWN = 5
"""Culprits named in one message."""

SURROGATE = re.compile("[\ud800-\udfff]")


def lower_gbnf(text: str, vocabulary: Vocabulary | None = None) -> Grammar:
    """The language of a grammar text from its rule `root`.

    Rules that the root does not reach, and alternatives that derive no finite text, are left out, and what derives only
    the empty text becomes it: the language is the same. Nothing refers to the root of the result.

    Errors: InvalidGrammar with line and column; LimitExceeded for the length, the nesting or the size.
    """
    if len(text) > GRAMMAR_TEXT_CHARS:
        raise LimitExceeded("grammar_text_chars", GRAMMAR_TEXT_CHARS, len(text))
    source = Source.of(text)
    surrogate = SURROGATE.search(text)
    if surrogate:
        raise source.error(surrogate.start(), "an unpaired surrogate is no character")
    rules = parse(source, TokenDomain(vocabulary))
    _require_defined(source, rules)
    grammar = Grammar(rules.bodies, ROOT)
    count_nodes(grammar)
    try:
        return _with_fresh_root(prune(grammar))
    except Unsatisfiable:
        raise _endless(source, rules, grammar) from None


def _require_defined(source: Source, rules: Rules) -> None:
    for name, reference in rules.references.items():
        if name not in rules.offsets:
            raise source.error(reference.offset, f"rule {name!r} is not defined{_hint(name, called=reference.called)}")
    if ROOT not in rules.offsets:
        raise source.error(0, "expected a rule named root, where the output starts")


def _hint(name: str, *, called: bool) -> str:
    if called:
        return " (the only constructors are Token and ExcludeToken)"
    return " (set the dot for any character apart from names)" if "." in name else ""


def _endless(source: Source, rules: Rules, grammar: Grammar) -> InvalidGrammar:
    """The refusal of a root that derives no finite text, with the rules that share its fault."""
    finite = productive_rules(grammar)
    others = sorted(name for name in rules.offsets if name not in finite and name != ROOT)
    also = f" (nor does any of: {', '.join(others[:NAMES_SHOWN])})" if others else ""
    reason = f"rule root derives no finite text{also}: expected an alternative that ends"
    return source.error(rules.offsets[ROOT], reason)


def _with_fresh_root(grammar: Grammar) -> Grammar:
    refers = any(node == Rule(ROOT) for body in grammar.rules.values() for node in walk(body))
    return Grammar({START: Rule(ROOT), **grammar.rules}, START) if refers else grammar
