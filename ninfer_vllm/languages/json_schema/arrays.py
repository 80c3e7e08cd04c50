"""Arrays: positions with their own schema, then items of the tail, within a length (JST-4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ninfer_vllm.automata.work import spend
from ninfer_vllm.errors import LimitExceeded
from ninfer_vllm.grammar.ir import EMPTY_TEXT, NOTHING, Expr, Repeat, alternation, optional
from ninfer_vllm.languages.json_schema.tokens import Tokens, joined
from ninfer_vllm.limits import UNIQUE_STATES

OPTION_STEPS = 10
"""Steps of writing one item that may follow."""


def array_text(
    item_at: Callable[[int], Expr],
    num_positions: int,
    length: tuple[int, int | None],
    tokens: Tokens,
    share: Callable[[str, Expr], Expr],
) -> Expr:
    """The texts of an array whose items before `num_positions` have their own texts and are alike from there on.

    `item_at` is asked only for positions below the greatest length; `share` gives an expression a rule.
    """
    minimum, maximum = length
    if maximum == 0:
        return tokens.empty("[]")
    # Position 0 has no comma before it, so it is never part of the repeated tail.
    last = max(num_positions, 1)
    end = last if maximum is None else min(last, maximum)
    parts = [_tail(item_at, end, length, tokens)] if maximum is None or maximum > end else []
    for at in reversed(range(end)):
        parts.append(joined(tokens.between(",") if at else EMPTY_TEXT, item_at(at)))
        if at > 0 and at >= minimum:
            parts = [share("rest", optional(joined(*reversed(parts))))]
    filled = joined(tokens.opening("["), *reversed(parts), tokens.closing("]"))
    return alternation(tokens.empty("[]"), filled) if minimum == 0 else filled


def _tail(item_at: Callable[[int], Expr], start: int, length: tuple[int, int | None], tokens: Tokens) -> Expr:
    minimum, maximum = length
    item = joined(tokens.between(","), item_at(start))
    return Repeat(item, max(minimum - start, 0), None if maximum is None else maximum - start)


def unique_array_text(
    values_at: Callable[[int], list[tuple[Hashable, Expr]]],
    length: tuple[int, int | None],
    tokens: Tokens,
    share: Callable[[str, Expr], Expr],
    pointer: str,
) -> Expr:
    """The texts of an array whose items all differ; `values_at` are the identities and texts that an index allows.

    Errors: LimitExceeded at `pointer` beyond `UNIQUE_STATES`.
    """
    minimum, maximum = length
    known: dict[tuple[int, frozenset[Hashable]], Expr] = {}

    def rest(at: int, used: frozenset[Hashable]) -> Expr:
        if (at, used) not in known:
            if len(known) >= UNIQUE_STATES:
                raise LimitExceeded("unique_states", UNIQUE_STATES, pointer=pointer)
            options = [tokens.closing("]")] if at >= max(minimum, 1) else []
            if maximum is None or at < maximum:
                comma = tokens.between(",") if at else EMPTY_TEXT
                for identity, text in values_at(at):
                    spend(OPTION_STEPS)
                    if identity not in used:
                        options.append(joined(comma, text, rest(at + 1, used | {identity})))
            body = alternation(*(option for option in options if option != NOTHING))
            known[at, used] = body if body == NOTHING or at == 0 else share("unique", body)
        return known[at, used]

    filled = joined(tokens.opening("["), rest(0, frozenset()))
    return alternation(tokens.empty("[]"), filled) if minimum == 0 else filled
