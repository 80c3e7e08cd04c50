"""Regular expressions as automata over characters: full match, and the search of JSON Schema's `pattern`.

Both take the text of an expression and give a minimal `Dfa`, which the operations of `algebra` combine. A JSON string
under `pattern` is `spelled(pattern_dfa(text))` between quotes: the search runs in the decoded value.
"""

from __future__ import annotations

from ninfer_vllm.automata import regex
from ninfer_vllm.automata.algebra import minimise
from ninfer_vllm.automata.charset import ANY
from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.lazy import determinise
from ninfer_vllm.automata.nfa import Nfa, NfaBuilder
from ninfer_vllm.automata.work import remembered

CACHED_EXPRESSIONS = 64
"""Automata that are remembered; real schemas repeat a pattern many times."""


@remembered(CACHED_EXPRESSIONS)
def fullmatch_dfa(text: str) -> Dfa:
    """The texts that the whole expression matches (RGX-1).

    Errors: InvalidRegex with the offset; LimitExceeded with the count.
    """
    return minimise(determinise(fullmatch_nfa(text)))


@remembered(CACHED_EXPRESSIONS)
def pattern_dfa(text: str) -> Dfa:
    """The texts in which the expression matches somewhere: at the start behind `^`, up to the end before `$`.

    The automaton reads the decoded value of a JSON string, not its spelling. An anchor holds for its own top-level
    branch: `^a|b$` is what begins with a, or ends with b (JST-5, RGX-7).

    Errors: InvalidRegex with the offset; LimitExceeded with the count.
    """
    return minimise(determinise(search_nfa(text)))


def fullmatch_nfa(text: str) -> Nfa:
    """The automaton of `fullmatch_dfa` before it is made deterministic."""
    builder = NfaBuilder()
    start, end = builder.state(), builder.state()
    for branch in regex.parse(text).branches:
        _add(builder, branch.node, start, end)
    return builder.finish(start, end)


def search_nfa(text: str) -> Nfa:
    """The automaton of `pattern_dfa` before it is made deterministic."""
    builder = NfaBuilder()
    start, end = builder.state(), builder.state()
    before, behind = builder.state(), builder.state()
    for state in (before, behind):
        builder.move(state, ANY, state)
    builder.link(start, before)
    builder.link(behind, end)
    for branch in regex.parse(text).branches:
        source = start if branch.anchored_start else before
        _add(builder, branch.node, source, end if branch.anchored_end else behind)
    return builder.finish(start, end)


def _add(builder: NfaBuilder, root: regex.Node, start: int, end: int) -> None:
    """Lay an expression between two states; iterative, so depth is no danger."""
    todo = [(root, start, end)]
    while todo:
        node, source, target = todo.pop()
        if isinstance(node, regex.CharClass):
            builder.move(source, node.chars, target)
        elif isinstance(node, regex.Union):
            todo.extend((item, source, target) for item in node.items)
        elif isinstance(node, regex.Repeated):
            copies = builder.repeated(source, target, node.minimum, node.maximum)
            todo.extend((node.item, *ends) for ends in copies)
        elif node.items:
            states = builder.chain(source, target, len(node.items))
            todo.extend(zip(node.items, states, states[1:], strict=False))
        else:
            builder.link(source, target)
