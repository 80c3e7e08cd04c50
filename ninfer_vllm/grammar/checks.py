"""Facts about a grammar that decide whether it may run: undefined, productive, recursive rules; size; pruning.

All passes are iterative: the nesting of a user's grammar is no danger to them. A grammar is measured by `count_nodes`
before anything else walks it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from operator import is_

from ninfer_vllm.errors import LimitExceeded, Unsatisfiable
from ninfer_vllm.grammar.ir import (
    EMPTY_TEXT,
    NOTHING,
    Alternation,
    Bytes,
    Chars,
    ExcludeToken,
    Expr,
    Grammar,
    Literal,
    Regular,
    Repeat,
    Rule,
    Sequence,
    Token,
    children,
    walk,
)
from ninfer_vllm.grammar.shortest import Shortest, dependents, shortest
from ninfer_vllm.limits import GRAMMAR_NODES

Graph = Mapping[str, Iterable[str]]
Needs = Callable[[Expr], tuple[Expr, ...]]


def count_nodes(grammar: Grammar, allowed: int = GRAMMAR_NODES) -> int:
    """The expressions of a grammar, an automaton counted by its states and edges.

    Errors: LimitExceeded as soon as more than `allowed` are met.
    """
    counted = 0
    for body in grammar.rules.values():
        for node in islice(walk(body), allowed + 1):
            counted += _weight(node)
            if counted > allowed:
                raise LimitExceeded("grammar_nodes", allowed, counted)
    return counted


def undefined_rules(grammar: Grammar) -> list[str]:
    """Names that are referred to (or are the root) but have no rule, in the order met."""
    named = (node.name for body in grammar.rules.values() for node in walk(body) if isinstance(node, Rule))
    return [name for name in dict.fromkeys((grammar.root, *named)) if name not in grammar.rules]


def reachable_rules(grammar: Grammar) -> set[str]:
    """Defined rules that the root refers to, directly or not, with the root itself."""
    found: set[str] = set()
    todo = [grammar.root]
    while todo:
        name = todo.pop()
        if name not in found and name in grammar.rules:
            found.add(name)
            todo.extend(node.name for node in walk(grammar.rules[name]) if isinstance(node, Rule))
    return found


def productive_rules(grammar: Grammar) -> set[str]:
    """Rules that derive a finite text."""
    known = shortest(grammar)
    return {name for name in grammar.rules if known.rule(name) is not None}


def nullable_rules(grammar: Grammar) -> set[str]:
    """Rules that derive the empty text."""
    known = shortest(grammar)
    return {name for name in grammar.rules if known.rule(name) == 0}


def recursive_rules(grammar: Grammar) -> set[str]:
    """Rules that refer to themselves, directly or not."""
    return _cyclic(
        {name: {node.name for node in walk(body) if isinstance(node, Rule)} for name, body in grammar.rules.items()}
    )


def left_recursive_rules(grammar: Grammar) -> set[str]:
    """Rules that can derive a text form starting with themselves."""
    known = shortest(grammar)
    return _cyclic({name: set(_left_corners(body, known)) for name, body in grammar.rules.items()})


def prune(grammar: Grammar) -> Grammar:
    """The same language without what adds nothing to it.

    Unreachable rules and parts that derive no finite text are dropped; parts that derive only the empty text become it.
    No rule is left that can only repeat itself, as `x ::= x{0,3}`: the xgrammar core overflows its stack there.

    Errors: Unsatisfiable where the language is empty.
    """
    known = shortest(grammar)
    if known.rule(grammar.root) is None:
        raise Unsatisfiable("the grammar derives no finite text")
    productive = {name: body for name, body in grammar.rules.items() if known.rule(name) is not None}
    solid = _solid(Grammar(productive, grammar.root), known)
    memo: dict[int, Expr] = {}
    pruned = Grammar({name: _pruned(body, known, solid, memo) for name, body in productive.items()}, grammar.root)
    kept = reachable_rules(pruned)
    return Grammar({name: body for name, body in pruned.rules.items() if name in kept}, grammar.root)


def postorder(expr: Expr, settled: Mapping[int, object], needs: Needs = children) -> Iterator[Expr]:
    """An expression and all it needs, what is needed first; those whose identity is in `settled` are left out."""
    todo = [(expr, False)]
    while todo:
        node, expanded = todo.pop()
        if id(node) in settled:
            continue
        if expanded:
            yield node
        else:
            todo.append((node, True))
            todo.extend((child, False) for child in reversed(needs(node)))


def _weight(node: Expr) -> int:
    if isinstance(node, Regular):
        return len(node.automaton.edges) + sum(len(edges) for edges in node.automaton.edges)
    return 1


def _solid(grammar: Grammar, known: Shortest) -> set[int]:
    """Identities of the expressions that derive a text that is not empty."""
    nodes, parents = dependents(grammar)
    found: set[int] = set()
    todo = [number for number, node in enumerate(nodes) if _consumes(node) and known.length(node) is not None]
    while todo:
        number = todo.pop()
        node = nodes[number]
        if id(node) not in found and known.length(node) is not None and not _is_void(node):
            found.add(id(node))
            todo.extend(parents[number])
    return found


def _consumes(node: Expr) -> bool:
    """Whether a terminal takes at least one byte or token in some text."""
    if isinstance(node, Literal):
        return bool(node.data)
    if isinstance(node, Regular):
        return bool(node.automaton.trimmed().edges[0])
    return isinstance(node, Bytes | Chars | Token | ExcludeToken)


def _is_void(node: Expr) -> bool:
    return isinstance(node, Repeat) and node.maximum == 0


def _pruned(body: Expr, known: Shortest, solid: set[int], memo: dict[int, Expr]) -> Expr:
    for node in postorder(body, memo):
        memo[id(node)] = _rebuilt(node, known, solid, memo)
    return memo[id(body)]


def _rebuilt(node: Expr, known: Shortest, solid: set[int], memo: dict[int, Expr]) -> Expr:
    """One expression over its already pruned sub-expressions."""
    if known.length(node) is None:
        return NOTHING
    if id(node) not in solid:
        return EMPTY_TEXT
    if isinstance(node, Regular):
        trimmed = node.automaton.trimmed()
        return node if len(trimmed.edges) == len(node.automaton.edges) else Regular(trimmed)
    if isinstance(node, Repeat):
        item = memo[id(node.item)]
        return node if item is node.item else Repeat(item, node.minimum, node.maximum)
    if isinstance(node, Sequence):
        return _joined(node, tuple(memo[id(item)] for item in node.items if id(item) in solid))
    if isinstance(node, Alternation):
        items = [memo[id(item)] for item in node.items if known.length(item) is not None]
        return _joined(node, tuple({id(item): item for item in items}.values()))
    return node


def _joined(node: Sequence | Alternation, kept: tuple[Expr, ...]) -> Expr:
    if len(kept) == 1:
        return kept[0]
    return node if len(kept) == len(node.items) and all(map(is_, kept, node.items)) else type(node)(kept)


def _left_corners(body: Expr, known: Shortest) -> Iterator[str]:
    """Rules that can stand at the start of what an expression derives."""
    todo = [body]
    while todo:
        node = todo.pop()
        if isinstance(node, Rule):
            yield node.name
        elif isinstance(node, Sequence):
            for item in node.items:
                todo.append(item)
                if known.length(item) != 0:
                    break
        elif not isinstance(node, Repeat) or node.maximum != 0:
            todo.extend(children(node))


def _cyclic(graph: Graph) -> set[str]:
    """Nodes that lie on a cycle."""
    component = _components(graph)
    size = Counter(component.values())
    return {name for name, targets in graph.items() if size[component[name]] > 1 or name in targets}


def _components(graph: Graph) -> dict[str, int]:
    """The strongly connected component of each node, by Tarjan's algorithm with an explicit stack."""
    component: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    for start in graph:
        if start in low:
            continue
        low[start] = len(low)
        calls = [(start, low[start], len(path), iter(graph[start]))]
        path.append(start)
        while calls:
            node, number, place, targets = calls[-1]
            for target in targets:
                if target not in graph or target in component:
                    continue
                if target not in low:
                    low[target] = len(low)
                    calls.append((target, low[target], len(path), iter(graph[target])))
                    path.append(target)
                    break
                low[node] = min(low[node], low[target])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
                if low[node] == number:
                    component.update((member, number) for member in path[place:])
                    del path[place:]
    return component
