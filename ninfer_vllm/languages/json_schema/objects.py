"""Objects: declared members in their order, then others under keys that nobody declared (JST-2, JST-3, JSO-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.ir import EMPTY_TEXT, NOTHING, Expr, Repeat, alternation, optional
from ninfer_vllm.languages.json_schema.schema import Length
from ninfer_vllm.languages.json_schema.tokens import Tokens, joined
from ninfer_vllm.limits import MEMBER_SETS

OPTION_STEPS = 30
"""Steps of writing what may follow so many members at one field."""


@dataclass(frozen=True, slots=True)
class Member:
    """The text of one declared member, key and value."""

    text: Expr
    is_required: bool


def object_text(members: list[Member], other: Expr | None, tokens: Tokens, share: Callable[[str, Expr], Expr]) -> Expr:
    """The texts of an object.

    `other` is any member that is not declared, None where there is none; `share` gives an expression a rule.
    """
    rest: list[Expr] = [] if other is None else [Repeat(joined(tokens.between(","), other), 0, None)]
    first = next((at for at, member in enumerate(members) if member.is_required), None)
    if first is None:
        return _all_optional(members, other, rest, tokens, share)
    before = [optional(joined(member.text, tokens.between(","))) for member in members[:first]]
    after = [_behind_comma(member, tokens) for member in members[first + 1 :]]
    return joined(tokens.opening("{"), *before, members[first].text, *after, *rest, tokens.closing("}"))


def _behind_comma(member: Member, tokens: Tokens) -> Expr:
    text = joined(tokens.between(","), member.text)
    return text if member.is_required else optional(text)


def _all_optional(
    members: list[Member], other: Expr | None, rest: list[Expr], tokens: Tokens, share: Callable[[str, Expr], Expr]
) -> Expr:
    """Any member may come first; what may follow the first one is shared by all that stand before it."""
    heads = [] if other is None else [joined(other, *rest)]
    tail = joined(*rest)
    for member in reversed(members):
        heads.append(joined(member.text, tail))
        tail = share("tail", joined(_behind_comma(member, tokens), tail)) if member is not members[0] else tail
    empty = tokens.empty("{}")
    if not heads:
        return empty
    return alternation(empty, joined(tokens.opening("{"), alternation(*reversed(heads)), tokens.closing("}")))


def counted_object_text(
    members: list[Member],
    other: Expr | None,
    witnesses: list[Expr],
    count: Length,
    tokens: Tokens,
    share: Callable[[str, Expr], Expr],
) -> Expr:
    """The texts of an object whose members are counted, or in which some must stand behind all others.

    Formula: declared members in order, then `other` ones, then `witnesses`; `count` members altogether.
    """
    text = _Counted(members, other, witnesses, count, tokens)
    top = max(count.minimum, 1) if count.maximum is None else count.maximum
    # What may follow so many members, from the last field to the first.
    rest = [text.behind_fields(num_members) for num_members in range(min(len(members), top) + 1)]
    for at in reversed(range(len(members))):
        spend(OPTION_STEPS * len(rest))
        shared = [expr if expr in (NOTHING, EMPTY_TEXT) else share("members", expr) for expr in rest]
        rest = [text.at_field(at, num_members, shared) for num_members in range(min(at, top) + 1)]
    (begun,) = rest
    return text.whole(begun)


def any_order_object_text(
    members: list[Member],
    other: Expr | None,
    witnesses: list[Expr],
    count: Length,
    tokens: Tokens,
    share: Callable[[str, Expr], Expr],
) -> Expr:
    """As `counted_object_text`, with the declared members in every order (JSX-10).

    Errors: LimitExceeded where there are more than `MEMBER_SETS` sets of members.
    """
    if 1 << len(members) > MEMBER_SETS:
        raise LimitExceeded("member_sets", MEMBER_SETS, 1 << len(members))
    text = _Counted(members, other, witnesses, count, tokens)
    # What may follow a set of written members, from the full set to the empty one.
    rest: list[Expr] = [NOTHING] * (1 << len(members))
    for written in reversed(range(len(rest))):
        spend(OPTION_STEPS * (1 + len(members)))
        body = text.behind_set(written, rest)
        rest[written] = share("members", body) if written and body not in (NOTHING, EMPTY_TEXT) else body
    return text.whole(rest[0])


@dataclass(frozen=True, slots=True)
class _Counted:
    """The parts of a counted object."""

    members: list[Member]
    other: Expr | None
    witnesses: list[Expr]
    count: Length
    tokens: Tokens

    @property
    def may_be_empty(self) -> bool:
        is_needed = any(member.is_required for member in self.members) or bool(self.witnesses)
        return self.count.minimum == 0 and not is_needed

    def whole(self, begun: Expr) -> Expr:
        """The object, given what may follow its brace."""
        filled = joined(self.tokens.opening("{"), begun, self.tokens.closing("}"))
        # The empty object is written in its own way, so that nothing but it is said twice.
        return alternation(self.tokens.empty("{}"), filled) if self.may_be_empty else filled

    def at_field(self, at: int, num_members: int, rest: list[Expr]) -> Expr:
        """What may follow when a field is next; `rest` is what may follow behind it, by the number of members."""
        member = self.members[at]
        options = [] if member.is_required else [rest[num_members]]
        if self.count.maximum is None or num_members < self.count.maximum:
            taken = joined(self._comma(num_members), member.text, rest[min(num_members + 1, len(rest) - 1)])
            options.insert(0, taken)
        return alternation(*(option for option in options if option != NOTHING))

    def behind_set(self, written: int, rest: list[Expr]) -> Expr:
        """What may follow a set of members, each a bit of `written`; `rest` is what may follow each larger set."""
        num_members = written.bit_count()
        missing = [at for at in range(len(self.members)) if not written >> at & 1]
        options = []
        if self.count.maximum is None or num_members < self.count.maximum:
            comma = self._comma(num_members)
            options = [joined(comma, self.members[at].text, rest[written | 1 << at]) for at in missing]
        if not any(self.members[at].is_required for at in missing):
            options.append(self.behind_fields(num_members))
        return alternation(*(option for option in options if option != NOTHING))

    def behind_fields(self, num_members: int) -> Expr:
        """What may follow when only others and witnesses are left."""
        before = num_members + len(self.witnesses)
        least = max(self.count.minimum - before, 0)
        most = None if self.count.maximum is None else self.count.maximum - before
        options = []
        if least == 0 and (most is None or most >= 0) and (num_members or self.witnesses):
            options.append(self._listed(num_members, self.witnesses))
        if self.other is not None and (most is None or most >= max(least, 1)):
            more = Repeat(
                joined(self.tokens.between(","), self.other), max(least - 1, 0), None if most is None else most - 1
            )
            ends = self._listed(1, self.witnesses)
            options.append(joined(self._comma(num_members), self.other, more, ends))
        return alternation(*options)

    def _listed(self, num_members: int, texts: list[Expr]) -> Expr:
        parts = [joined(self._comma(num_members + at), text) for at, text in enumerate(texts)]
        return joined(*parts) if parts else EMPTY_TEXT

    def _comma(self, num_members: int) -> Expr:
        return self.tokens.between(",") if num_members else EMPTY_TEXT
