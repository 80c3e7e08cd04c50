"""Objects: declared members in their order, then others under keys that nobody declared (JST-2, JST-3, JSO-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ninfer_vllm.grammar.ir import Expr, Repeat, alternation, optional
from ninfer_vllm.languages.json_schema.tokens import Tokens, joined


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
