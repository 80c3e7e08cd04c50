"""Subschemas expanded to branches: one a combination of the members that their anyOf and oneOf leave open.

Theory of operation. A branch is a list of facts: subschemas whose own keywords hold together. A subschema's branches
are the product of its own keywords, its references and allOf members, and its choices. Pairs whose types have nothing
in common are dropped at once. A reference that leads back before any value is consumed adds no branch: a value that
needs itself to be valid needs another reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ninfer_vllm.errors import LimitExceeded
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


@dataclass(frozen=True, slots=True)
class Expansion:
    """The branches of a subschema or a key."""

    branches: tuple[Branch, ...]
    cycle: str | None = None
    """An applicator that led back to its own subschema, where there is one."""
    cuts: frozenset[str] = frozenset()
    """Unfinished subschemas that it led back to: the expansion is only valid inside theirs."""


EVERYTHING = Branch(ALL_TYPES)


class Expander:
    """Expands the subschemas of one schema; every finished result is kept."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._finished: dict[str, Expansion] = {}
        self._unfinished: dict[str, None] = {}
        self._num_merges = 0
        self.exclusive: set[str] = set()
        """The oneOf keywords met."""

    def expand(self, key: Key) -> Expansion:
        """The branches that all subschemas of a key have in common.

        Errors: LimitExceeded beyond `INTERSECTIONS` merges or `NESTING_DEPTH` references in a row.
        """
        branches: tuple[Branch, ...] = (EVERYTHING,)
        cycle = None
        for pointer in key:
            expansion = self._subschema(pointer)
            cycle = cycle or expansion.cycle
            branches = self._product(branches, expansion.branches, pointer)
        return Expansion(_absorbed(branches), cycle)

    def merged(self, left: Branch, right: Branch, pointer: str) -> Branch | None:
        """Both branches at once; None where their types or choices have nothing in common."""
        self._num_merges += 1
        if self._num_merges > INTERSECTIONS:
            raise LimitExceeded("intersections", INTERSECTIONS, pointer=pointer)
        types = left.types & right.types
        # A choice met twice is one choice: (a | b) & (a | b)  ->  a | b
        taken = dict(left.choices)
        if not types or any(taken.get(place, at) != at for place, at in right.choices):
            return None
        facts = tuple(dict.fromkeys((*left.facts, *right.facts)))
        return Branch(types, facts, tuple(dict.fromkeys((*left.choices, *right.choices))))

    def _subschema(self, pointer: str) -> Expansion:
        if pointer in self._finished:
            return self._finished[pointer]
        if len(self._unfinished) >= NESTING_DEPTH:
            raise LimitExceeded("nesting_depth", NESTING_DEPTH, len(self._unfinished) + 1, pointer)
        self._unfinished[pointer] = None
        branches: tuple[Branch, ...] = (EVERYTHING,)
        cycle = None
        cuts: set[str] = set()
        for part in _parts(self._schema.nodes[pointer]):
            found = Expansion((part,)) if isinstance(part, Branch) else self._applied(part)
            branches = self._product(branches, found.branches, pointer)
            cycle = cycle or found.cycle
            cuts |= found.cuts
        del self._unfinished[pointer]
        expansion = Expansion(branches, cycle, frozenset(cuts - {pointer}))
        if not expansion.cuts:
            self._finished[pointer] = expansion
        return expansion

    def _applied(self, applicator: Applicator) -> Expansion:
        """The product of the members of allOf and $ref, the union of those of anyOf and oneOf."""
        branches: tuple[Branch, ...] = (EVERYTHING,)
        options: list[Branch] = []
        cycle = None
        cuts: set[str] = set()
        if applicator.kind == "one":
            self.exclusive.add(applicator.pointer)
        # A plain loop: each level of a deep composition costs two frames.
        for at, member in enumerate(applicator.members):
            if member in self._unfinished:
                found = Expansion((), applicator.pointer, frozenset((member,)))
            else:
                found = self._subschema(member)
            cycle = cycle or found.cycle
            cuts |= found.cuts
            if applicator.kind == "all":
                branches = self._product(branches, found.branches, applicator.pointer)
            else:
                options.extend(_chosen(branch, applicator, at) for branch in found.branches)
        return Expansion(branches if applicator.kind == "all" else tuple(options), cycle, frozenset(cuts))

    def _product(self, left: tuple[Branch, ...], right: tuple[Branch, ...], pointer: str) -> tuple[Branch, ...]:
        if left == (EVERYTHING,) or right == (EVERYTHING,):
            return right if left == (EVERYTHING,) else left
        merged = (self.merged(one, other, pointer) for one in left for other in right)
        return tuple(dict.fromkeys(branch for branch in merged if branch is not None))


def _parts(node: Node) -> Iterator[Applicator | Branch]:
    """A node's own keywords and its applicators, in reading order."""
    yield from node.applicators[: node.own_place]
    yield Branch(node.types, (node.pointer,) if node.asserts else ())
    yield from node.applicators[node.own_place :]


def _chosen(branch: Branch, applicator: Applicator, at: int) -> Branch:
    return replace(branch, choices=(*branch.choices, (applicator.pointer, at)))


def _absorbed(branches: tuple[Branch, ...]) -> tuple[Branch, ...]:
    """Without the branches that another one covers, which has neither facts nor choices and as many types."""
    free = [branch for branch in branches if not branch.facts and not branch.choices]
    return tuple(
        branch for branch in branches if branch in free or not any(branch.types <= other.types for other in free)
    )
