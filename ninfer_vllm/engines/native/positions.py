"""Places in a grammar, made when first reached: what may be read there, and what comes next.

Theory of operation. A position is an interned number. It stands for "this expression, and then that position", so
that a rule's body is unfolded only as far as texts reach into it. Terminal positions read a byte (or one token); all
others are resolved by `local`: the terminals, the calls of rules and repeated items, and whether the body can end, all
without reading anything. A called body ends at the position END, which returns to the frames of the stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ninfer_vllm.automata.utf8 import Fork, Forks
from ninfer_vllm.engines.native.closed import ClosedForms, flattened, has_wide_set
from ninfer_vllm.engines.native.facts import Facts
from ninfer_vllm.engines.native.kinds import (
    ACCEPT,
    END,
    NO_SEGMENTS,
    SINGLES,
    UNSETTLED,
    Call,
    Kind,
    Local,
    Segment,
    UnitLike,
    UnitSource,
)
from ninfer_vllm.engines.native.listings import Listing, Listings, is_optional, listing_classes
from ninfer_vllm.engines.native.regulars import RegularUnit, ends_surely
from ninfer_vllm.engines.native.stacks import PLAIN, UNBOUNDED, counted
from ninfer_vllm.grammar.ir import (
    Alternation,
    Bytes,
    Chars,
    Expr,
    Grammar,
    Literal,
    Regular,
    Repeat,
    Rule,
    Sequence,
    Token,
    children,
)

LARGE = 500
"""Rules of a grammar, or parts of a rule, from which on lists of what may come are made while compiling."""


class Positions:
    """The positions of one grammar."""

    def __init__(self, grammar: Grammar, facts: Facts, units: UnitSource) -> None:
        self._rules = grammar.rules
        self._facts = facts
        self._units = units
        self._closed = ClosedForms(grammar)
        self._forks = Forks()
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.kinds: list[Kind] = []
        self.parts: list[tuple[Any, ...]] = []
        """What a position holds besides its kind; the last part is the next position."""
        self._locals: list[Local | None] = []
        self._classes: list[tuple[tuple[Segment, ...], Any] | None] = []
        self._entries: dict[int, int] = {}
        self._heights: dict[int, int] = {}
        self._listings = Listings(grammar.rules)
        if len(grammar.rules) >= LARGE or any(map(_is_large, grammar.rules.values())):
            self._listings.prepare(grammar.rules.values())
        assert (self._add(Kind.END, ()), self._add(Kind.ACCEPT, ())) == (END, ACCEPT)

    @property
    def num_listed(self) -> int:
        """Texts of all listings."""
        return self._listings.num_texts

    def __len__(self) -> int:
        return len(self.kinds)

    def rule(self, name: str) -> int:
        """The start of a rule's body."""
        return self.entry(self._rules[name])

    def entry(self, body: Expr) -> int:
        """The start of a body that is called."""
        found = self._entries.get(id(body))
        if found is None:
            found = self._entries[id(body)] = self.start(body, END)
        return found

    def start(self, expr: Expr, after: int) -> int:
        """The position before an expression that is followed by the position `after`."""
        if isinstance(expr, Literal):
            return self.literal(expr.data, 0, after)
        if isinstance(expr, Sequence):
            return self._sequence(expr, 0, after)
        if isinstance(expr, Rule):
            return self._add(Kind.CALL, (expr.name, after))
        if isinstance(expr, Repeat):
            return self._repeat(expr, after)
        if isinstance(expr, Alternation):
            return self._of(Kind.ALTERNATION, expr, after)
        if isinstance(expr, Chars):
            return self._node(self._forks.before(((expr.chars, 0),)), after)
        if isinstance(expr, Bytes):
            return self._node(self._forks.of_bytes(expr.values), after)
        if isinstance(expr, Regular):
            return self._regular(expr, after)
        return self._add(Kind.TOKEN if isinstance(expr, Token) else Kind.EXCLUDE, (expr.ids, after))

    def unit(self, unit: UnitLike, state: int, after: int) -> int:
        """The position in a state of a unit."""
        return self._add(Kind.UNIT, (unit, state, after))

    def repeated(self, item: Expr, after: int) -> int:
        """The position that frames of a counted repetition return to."""
        return self._of(Kind.REPEAT, item, after)

    def local(self, position: int) -> Local:
        """What can happen at a position before anything is read."""
        found = self._locals[position]
        if found is None:
            found = self._locals[position] = self._resolve(position)
        return found

    def segments(self, position: int) -> tuple[Segment, ...]:
        """The bytes a terminal reads, in classes numbered from 1."""
        return self._classes_of(position)[0]

    def target(self, position: int, byte_class: int) -> int:
        """The position behind a byte of a class of a terminal."""
        targets = self._classes_of(position)[1]
        if self.kinds[position] is Kind.UNIT:
            unit, state, after = self.parts[position]
            return self.unit(unit, unit.target(state, byte_class), after)
        found = targets[byte_class - 1]
        if isinstance(found, int):
            return found
        number, low, high, depth, after = found
        if low + 1 == high:
            listing = self._listings.numbered[number]
            # One text is left.
            return self.literal(listing.texts[low], depth, self._behind_listed(listing, low, after))
        return self._add(Kind.LISTING, found)

    def height(self, entry: int) -> int:
        """A number that is greater than that of every body called at the start of this one."""
        found = self._heights.get(entry)
        if found is not None:
            return found
        todo = [entry]
        while todo:
            at = todo[-1]
            below = [call[0] for call in self.local(at)[1]]
            missing = [other for other in below if other not in self._heights]
            if missing:
                todo.extend(missing)
            else:
                self._heights[todo.pop()] = 1 + max((self._heights[other] for other in below), default=0)
        return self._heights[entry]

    def near(self, position: int) -> int:
        """The position no single token can tell from this one."""
        if self.kinds[position] is not Kind.UNIT:
            return position
        unit, state, after = self.parts[position]
        near = unit.near(state)
        return position if near == state else self.unit(unit, near, after)

    def adopted(self, source: Positions, position: int, after: int) -> int:
        """The position of what a position of an equal grammar holds, in front of `after`."""
        kind, parts = source.kinds[position], source.parts[position]
        if kind is Kind.NODE:
            return self._node(self._forks.adopted(parts[0]), after)
        if kind is Kind.UNIT:
            unit = self._same_unit(parts[0])
            return self.unit(unit, unit.adopted(parts[0], parts[1]), after)
        if kind is Kind.SEQUENCE:
            return self._later(parts[0], parts[1], after)
        if kind is Kind.COUNT:
            return self._counted(parts[0], parts[1], parts[2], after)
        if kind in (Kind.ALTERNATION, Kind.OPTIONAL, Kind.STAR, Kind.REPEAT):
            return self._of(kind, parts[0], after)
        if kind is Kind.LISTING:
            return self._add(kind, (self._listings.number(source._listings.numbered[parts[0]]), *parts[1:-1], after))
        return self._add(kind, (*parts[:-1], after))

    def _add(self, kind: Kind, parts: tuple[Any, ...]) -> int:
        return self._intern((int(kind), *parts), kind, parts)

    def _of(self, kind: Kind, expr: Expr, after: int) -> int:
        # Expressions are known by identity: to hash a deep one costs as much as to walk it.
        return self._intern((int(kind), id(expr), after), kind, (expr, after))

    def _intern(self, key: tuple[Any, ...], kind: Kind, parts: tuple[Any, ...]) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.kinds)
            self.kinds.append(kind)
            self.parts.append(parts)
            is_settled = kind <= Kind.EXCLUDE and kind not in UNSETTLED
            self._locals.append(((number,), (), False) if is_settled else None)
            self._classes.append(None)
        return number

    def _sequence(self, expr: Sequence, index: int, after: int) -> int:
        """The position before item `index` of a sequence."""
        items = expr.items
        if index == len(items):
            return after
        if self._is_listed(expr, index):
            return self._later(expr, index, after)
        following = items[index + 1] if index + 1 < len(items) else None
        if isinstance(following, Literal) and following.data:
            item = self._closed.wide_item(items[index])
            if item is not None:
                behind = after if index + 2 == len(items) else self._later(expr, index + 2, after)
                return self._unit(item, following.data, behind)
        return self.start(items[index], after if following is None else self._later(expr, index + 1, after))

    def _later(self, expr: Sequence, index: int, after: int) -> int:
        return self._intern((int(Kind.SEQUENCE), id(expr), index, after), Kind.SEQUENCE, (expr, index, after))

    def _unit(self, item: Repeat | Regular, literal: bytes, after: int) -> int:
        if isinstance(item, Regular):
            return self._regular(item, self.literal(literal, 0, after))
        copied, minimum, maximum = flattened(item)
        unit = self._units.of(copied, literal[0])
        return self.unit(unit, unit.enter(minimum, maximum), self.literal(literal, 1, after))

    def _same_unit(self, other: UnitLike) -> Any:
        """The unit that stands for what one of an equal grammar does."""
        if isinstance(other, RegularUnit):
            return self._units.regular(other.item, other.terminator)
        assert other.terminator is not None
        return self._units.of(other.item, other.terminator)

    def _repeat(self, expr: Repeat, after: int) -> int:
        item, minimum, maximum = flattened(expr)
        if maximum == 0:
            return after
        if self._facts.nullable(item):
            minimum = 0
        if (minimum, maximum) == (1, 1):
            return self.start(item, after)
        if (minimum, maximum) == (0, 1):
            return self._of(Kind.OPTIONAL, item, after)
        if (minimum, maximum) == (0, None):
            return self._of(Kind.STAR, item, after)
        if (minimum, maximum) == (1, None):
            return self.start(item, self._of(Kind.STAR, item, after))
        return self._counted(item, minimum, maximum, after)

    def _counted(self, item: Expr, minimum: int, maximum: int | None, after: int) -> int:
        key = (int(Kind.COUNT), id(item), minimum, maximum, after)
        return self._intern(key, Kind.COUNT, (item, minimum, maximum, after))

    def _regular(self, item: Regular, after: int) -> int:
        if self.kinds[after] is Kind.LITERAL:
            data, offset, behind = self.parts[after]
            if has_wide_set(item) and ends_surely(item, data[offset]):
                unit = self._units.regular(item, data[offset])
                return self.unit(unit, RegularUnit.start, self.literal(data, offset + 1, behind))
        return self.unit(self._units.regular(item, None), RegularUnit.start, after)

    def literal(self, data: bytes, offset: int, after: int) -> int:
        """The position before the rest of a fixed text."""
        return after if offset == len(data) else self._add(Kind.LITERAL, (data, offset, after))

    def _resolve(self, position: int) -> Local:
        terminals: dict[int, None] = {}
        calls: dict[Call, None] = {}
        ends = False
        seen = {position}
        todo = [position]
        while todo:
            at = todo.pop()
            if at == END:
                ends = True
                continue
            if self.kinds[at] <= Kind.EXCLUDE and self.kinds[at] not in UNSETTLED:
                terminals[at] = None
                continue
            for found in self._step(at, terminals, calls):
                if found not in seen:
                    seen.add(found)
                    todo.append(found)
        return tuple(terminals), tuple(calls), ends

    def _step(self, at: int, terminals: dict[int, None], calls: dict[Call, None]) -> Iterator[int]:
        """Positions that are reached from one without reading; notes its terminals and calls."""
        kind, parts = self.kinds[at], self.parts[at]
        after = parts[-1]
        if kind is Kind.SEQUENCE:
            if self._is_listed(parts[0], parts[1]):
                yield from self._ways(parts[0], parts[1], after)
            else:
                yield self._sequence(parts[0], parts[1], after)
        elif kind is Kind.CALL:
            calls[self.rule(parts[0]), after, PLAIN, 0, 0] = None
            if self._facts.nullable_rule(parts[0]):
                yield after
        elif kind is Kind.ALTERNATION:
            yield from self._ways(parts[0], 0, after)
        elif kind is Kind.OPTIONAL:
            yield self.start(parts[0], after)
            yield after
        elif kind is Kind.STAR:
            yield self.start(parts[0], at)
            yield after
        elif kind is Kind.COUNT:
            yield from self._count(parts, calls)
        elif kind is Kind.UNIT:
            if parts[0].num_live(parts[1]):
                terminals[at] = None
            if parts[0].ends(parts[1]):
                yield after
        else:
            assert kind is Kind.LISTING
            yield from self._listing_place(at, terminals)

    def _count(self, parts: tuple[Any, ...], calls: dict[Call, None]) -> Iterator[int]:
        item, minimum, maximum, after = parts
        frame = (UNBOUNDED, minimum, minimum) if maximum is None else counted(maximum - minimum, maximum, maximum)
        calls[self.entry(item), self.repeated(item, after), *frame] = None
        if minimum == 0:
            yield after

    def _node(self, fork: Fork, after: int) -> int:
        return self._intern((int(Kind.NODE), fork, after), Kind.NODE, (fork, after))

    def _ways(self, expr: Alternation | Sequence, index: int, after: int) -> Iterator[int]:
        """Where an expression can go on: the places of fixed texts as one, where they are many."""
        listing, others = self._listings.of(expr, index)
        if listing is None:
            for item in expr.items:
                yield self.start(item, after)
            return
        yield self._add(Kind.LISTING, (self._listings.number(listing), 0, len(listing.texts), 0, after))
        for other, at, then in others:
            behind = after if then is None else self._later(*then, after)
            yield self._sequence(other, at, behind) if isinstance(other, Sequence) else self.start(other, behind)

    def _is_listed(self, expr: Sequence, index: int) -> bool:
        """Whether the items from one on are optional ones that begin with fixed text, many of them."""
        if index == len(expr.items) or not is_optional(expr.items[index]):
            return False
        return self._listings.of(expr, index)[0] is not None

    def _listing_place(self, at: int, terminals: dict[int, None]) -> Iterator[int]:
        number, low, high, depth, after = self.parts[at]
        listing = self._listings.numbered[number]
        first = low
        while low < high and len(listing.texts[low]) == depth:
            yield self._behind_listed(listing, low, after)
            low += 1
        if low < high:
            terminals[at if low == first else self._add(Kind.LISTING, (number, low, high, depth, after))] = None

    def _behind_listed(self, listing: Listing, at: int, after: int) -> int:
        rest, then = listing.rests[at], listing.thens[at]
        behind = after if then is None else self._later(then[0], then[1], after)
        return behind if rest is None else self._sequence(rest[0], rest[1], behind)

    def _classes_of(self, position: int) -> tuple[tuple[Segment, ...], Any]:
        found = self._classes[position]
        if found is None:
            found = self._classes[position] = self._classify(position)
        return found

    def _classify(self, position: int) -> tuple[tuple[Segment, ...], Any]:
        kind, parts = self.kinds[position], self.parts[position]
        if kind is Kind.LITERAL:
            data, offset, after = parts
            return SINGLES[data[offset]], (self.literal(data, offset + 1, after),)
        if kind is Kind.NODE:
            return self._fork_classes(*parts)
        if kind is Kind.LISTING:
            return listing_classes(self._listings.numbered[parts[0]].texts, *parts)
        if kind is Kind.UNIT:
            return parts[0].segments(parts[1]), None
        return NO_SEGMENTS, ()

    def _fork_classes(self, fork: Fork, after: int) -> tuple[tuple[Segment, ...], tuple[int, ...]]:
        below = dict.fromkeys(below for _, _, below in fork.branches)
        return fork.segments, tuple(self._node(place, after) if isinstance(place, Fork) else after for place in below)


def _is_large(body: Expr) -> bool:
    return any(
        isinstance(expr, Alternation | Sequence) and len(expr.items) >= LARGE for expr in (body, *children(body))
    )
