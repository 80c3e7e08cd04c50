"""Subschemas expanded to branches: one a combination of the members that their anyOf and oneOf leave open.

Theory of operation. A branch is a list of facts: subschemas whose own keywords hold together. A subschema's branches
are the product of its own keywords, its references and allOf members, and its choices. Pairs whose types have nothing
in common are dropped at once. A reference that leads back before any value is consumed adds no branch: a value that
needs itself to be valid needs another reason. Back through a negation, there is no such reading, and it is refused.

What unevaluatedProperties and unevaluatedItems close depends on which members of anyOf hold. Below such a keyword a
choice is therefore expanded exactly, to every set of members that hold while the others do not, and each branch knows
its evaluators: the facts whose keywords evaluate members and items. What holds because a negation does not evaluates
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations

from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import LimitExceeded, UnsupportedSchema
from ninfer_vllm.languages.json_schema.evaluation import closing_node
from ninfer_vllm.languages.json_schema.names import is_negated, negated, place
from ninfer_vllm.languages.json_schema.negation import node_of
from ninfer_vllm.languages.json_schema.schema import ALL_TYPES, Applicator, Node, Schema, Type
from ninfer_vllm.languages.json_schema.shapes import Key
from ninfer_vllm.limits import INTERSECTIONS, NESTING_DEPTH


@dataclass(frozen=True, slots=True)
class Branch:
    """Facts that hold together for values of some types."""

    types: frozenset[Type]
    facts: Key = ()
    choices: tuple[tuple[str, int], ...] = ()
    """Which member of each anyOf and oneOf was taken."""
    evaluators: Key = ()
    """The facts that evaluate members and items, where the expansion is exact."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The branches of a subschema or a key."""

    branches: tuple[Branch, ...]
    cycle: str | None = None
    """An applicator that led back to its own subschema, where there is one."""
    cuts: frozenset[str] = frozenset()
    """Unfinished subschemas that it led back to: the expansion is only valid inside theirs."""


EVERYTHING = Branch(ALL_TYPES)

MERGE_STEPS = 4
"""Steps of a conjunction, besides those of its parts."""


class Expander:
    """Expands the subschemas of one schema; every finished result is kept."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._finished: dict[tuple[str, bool], Expansion] = {}
        self._unfinished: dict[str, None] = {}
        self._num_merges = 0
        self._apart: dict[str, set[frozenset[int]]] = {}
        self.exclusive: dict[str, tuple[str, ...]] = {}
        """The members of the oneOf keywords met."""

    def expand(self, key: Key) -> Expansion:
        """The branches that all subschemas of a key have in common.

        Errors: LimitExceeded beyond `INTERSECTIONS` merges or `NESTING_DEPTH` references in a row; UnsupportedSchema
        where a negation leads back to itself or is not regular.
        """
        branches: tuple[Branch, ...] = (EVERYTHING,)
        cycle = None
        for name in key:
            expansion = self._subschema(name, exact=False)
            cycle = cycle or expansion.cycle
            branches = self._product(branches, expansion.branches, place(name))
        return Expansion(_absorbed(branches), cycle)

    def merged(self, left: Branch, right: Branch, pointer: str) -> Branch | None:
        """Both branches at once; None where their types or choices have nothing in common."""
        self._num_merges += 1
        if self._num_merges > INTERSECTIONS:
            raise LimitExceeded("intersections", INTERSECTIONS, pointer=pointer)
        spend(MERGE_STEPS + (len(left.facts) + len(right.facts) + len(left.choices) + len(right.choices)) // 8)
        types = left.types & right.types
        # A choice met twice is one choice: (a | b) & (a | b)  ->  a | b
        taken = dict(left.choices)
        if not types or any(taken.get(where, at) != at for where, at in right.choices):
            return None
        return Branch(
            types,
            tuple(dict.fromkeys((*left.facts, *right.facts))),
            tuple(dict.fromkeys((*left.choices, *right.choices))),
            tuple(dict.fromkeys((*left.evaluators, *right.evaluators))),
        )

    def keep_apart(self, pointer: str, pairs: set[frozenset[int]]) -> None:
        """From now on, subtract the members of such pairs of a oneOf from each other."""
        self._apart[pointer] = pairs
        self._finished.clear()

    def is_apart(self, pointer: str, one: int, other: int) -> bool:
        """Whether two members of a oneOf are subtracted from each other."""
        return frozenset((one, other)) in self._apart.get(pointer, ())

    def _subschema(self, name: str, *, exact: bool) -> Expansion:
        if (name, exact) in self._finished:
            return self._finished[name, exact]
        if len(self._unfinished) >= NESTING_DEPTH:
            raise LimitExceeded("nesting_depth", NESTING_DEPTH, len(self._unfinished) + 1, place(name))
        self._unfinished[name] = None
        node = node_of(self._schema, name)
        is_closed = self._is_closed(node, exact=exact)
        branches: tuple[Branch, ...] = (EVERYTHING,)
        cycle = None
        cuts: set[str] = set()
        for part in _parts(node):
            if isinstance(part, Branch):
                found = Expansion((part,))
            else:
                found = self._exactly(part) if exact or is_closed else self._applied(part)
            branches = self._product(branches, found.branches, place(name))
            cycle = cycle or found.cycle
            cuts |= found.cuts
        if is_closed:
            branches = self._closed(node, branches)
        if not exact:
            branches = tuple(dict.fromkeys(replace(branch, evaluators=()) for branch in branches))
        del self._unfinished[name]
        expansion = Expansion(branches, cycle, frozenset(cuts - {name}))
        if not expansion.cuts:
            self._finished[name, exact] = expansion
        return expansion

    def _is_closed(self, node: Node, *, exact: bool) -> bool:
        """Whether unevaluated keywords matter: those that admit everything do only because they evaluate it."""
        names = [name for name in (node.unevaluated_items, node.unevaluated_properties) if name is not None]
        return bool(names) and (exact or not all(map(self._schema.is_trivial, names)))

    def _applied(self, applicator: Applicator) -> Expansion:
        """The product of the members of allOf and $ref, the union of those of anyOf and oneOf."""
        branches: tuple[Branch, ...] = (EVERYTHING,)
        options: list[Branch] = []
        cycle = None
        cuts: set[str] = set()
        if applicator.kind == "one":
            self.exclusive[applicator.pointer] = applicator.members
        # A plain loop: each level of a deep composition costs two frames.
        for at, member in enumerate(applicator.members):
            found = self._member(member, applicator, exact=False)
            cycle = cycle or found.cycle
            cuts |= found.cuts
            if applicator.kind == "all":
                branches = self._product(branches, found.branches, place(applicator.pointer))
                continue
            kept = found.branches
            for other in self._rivals(applicator, at):
                rival = self._member(negated(other), applicator, exact=False)
                cuts |= rival.cuts
                kept = self._product(kept, rival.branches, place(applicator.pointer))
            options.extend(_chosen(branch, applicator, at) for branch in kept)
        return Expansion(branches if applicator.kind == "all" else tuple(options), cycle, frozenset(cuts))

    def _exactly(self, applicator: Applicator) -> Expansion:
        """Every set of members that may hold while the others do not."""
        options: list[Branch] = []
        cycle = None
        cuts: set[str] = set()
        for holding in _sets(applicator):
            branches: tuple[Branch, ...] = (EVERYTHING,)
            spend(MERGE_STEPS * len(applicator.members))
            for member in applicator.members:
                holds = member in holding
                # A negation evaluates nothing, so that it need not be exact.
                name = member if holds else negated(member)
                found = self._member(name, applicator, exact=holds and not is_negated(member))
                branches = self._product(branches, found.branches, place(applicator.pointer))
                cycle = cycle or found.cycle
                cuts |= found.cuts
            options.extend(branches)
        return Expansion(tuple(dict.fromkeys(options)), cycle, frozenset(cuts))

    def _member(self, name: str, applicator: Applicator, *, exact: bool) -> Expansion:
        if name not in self._unfinished:
            return self._subschema(name, exact=exact)
        unfinished = list(self._unfinished)
        if any(map(is_negated, unfinished[unfinished.index(name) :])):
            reason = "the subschema refers to its own opposite before any value is consumed: remove one"
            raise UnsupportedSchema(place(applicator.pointer), "not", reason)
        return Expansion((), place(applicator.pointer), frozenset((name,)))

    def _rivals(self, applicator: Applicator, at: int) -> Iterator[str]:
        """The other members of a oneOf that are subtracted from one."""
        for pair in self._apart.get(applicator.pointer, ()) if applicator.kind == "one" else ():
            if at in pair:
                (other,) = pair - {at}
                yield applicator.members[other]

    def _closed(self, node: Node, branches: tuple[Branch, ...]) -> tuple[Branch, ...]:
        """The branches with what the unevaluated keywords of their subschema say."""
        closed: list[Branch | None] = []
        for branch in branches:
            name = closing_node(self._schema, node, branch.evaluators)
            closed.append(self.merged(branch, Branch(ALL_TYPES, (name,), (), (name,)), place(node.pointer)))
        return tuple(branch for branch in closed if branch is not None)

    def _product(self, left: tuple[Branch, ...], right: tuple[Branch, ...], pointer: str) -> tuple[Branch, ...]:
        if left == (EVERYTHING,) or right == (EVERYTHING,):
            return right if left == (EVERYTHING,) else left
        merged = (self.merged(one, other, pointer) for one in left for other in right)
        return tuple(dict.fromkeys(branch for branch in merged if branch is not None))


def _parts(node: Node) -> Iterator[Applicator | Branch]:
    """A node's own keywords and its applicators, in reading order."""
    yield from node.applicators[: node.own_place]
    own = (node.pointer,) if node.asserts else ()
    yield Branch(node.types, own, (), own)
    yield from node.applicators[node.own_place :]


def _sets(applicator: Applicator) -> Iterable[tuple[str, ...]]:
    """The sets of members that may hold."""
    members = applicator.members
    if applicator.kind == "all":
        return (members,)
    if applicator.kind == "one":
        return ((member,) for member in members)
    return chain.from_iterable(combinations(members, size) for size in range(1, len(members) + 1))


def _chosen(branch: Branch, applicator: Applicator, at: int) -> Branch:
    return replace(branch, choices=(*branch.choices, (applicator.pointer, at)))


def _absorbed(branches: tuple[Branch, ...]) -> tuple[Branch, ...]:
    """Without the branches that another one covers, which has neither facts nor choices and as many types."""
    free = [branch for branch in branches if not branch.facts and not branch.choices]
    spend(len(free) * len(branches))
    return tuple(
        branch for branch in branches if branch in free or not any(branch.types <= other.types for other in free)
    )
