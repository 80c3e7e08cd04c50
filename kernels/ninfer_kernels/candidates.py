"""Candidates of each row after temperature, top-k, min-p and top-p, as a bound: nothing of vocabulary size is written.

Theory of operation. Tokens are ordered by falling logit and then by rising id. Each of the three filters keeps a
beginning of that order, so a row's candidates are told by their last one: a logit, as an ordered key of 32 bits, and an
id. A filter's last token is found by narrowing an interval of keys to a quarter, sixteen times, and then one of ids
where several tokens share the key; what is counted on the way is members (top-k) or their weight (top-p).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ninfer_kernels.bits import facts_of, legal_block, ordered
from ninfer_kernels.masking import BLOCK, block_for


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The target distribution of each row: p[t] = exp((z[t] - top) * scale) / total for its candidates.

    Token t is a candidate if it is legal and (key[t], -t) >= (last_key, -last_id), where key orders logits.
    """

    facts: torch.Tensor
    """i32 [R], as in `masking.apply_mask`; where it is not 1 the rest of the row has no meaning."""
    top: torch.Tensor
    """f32 [R]."""
    scale: torch.Tensor
    """f32 [R]: 1 / temperature; 1 for a greedy row."""
    total: torch.Tensor
    """f64 [R]."""
    last_key: torch.Tensor
    """i64 [R]."""
    last_id: torch.Tensor
    """i32 [R]."""


def select_candidates(
    logits: torch.Tensor,
    words: torch.Tensor,
    row_of: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    min_p: torch.Tensor,
    top_p: torch.Tensor,
    *,
    block: int = BLOCK,
) -> Candidates:
    """The candidates of each row over its legal set (SMP-2).

    Formula:  as in the contract SMP-2; ties go to the smaller id in top-k, top-p and greedy alike. Weights are float32,
              their sums float64.
    Shapes:   logits, words, row_of as in `masking.apply_mask`, logits only read, penalties applied;
              temperature, min_p, top_p [R] f32 (temperature 0: greedy; min_p 0, top_p 1: off); top_k [R] i32 (0: off).
    Moves:    masks and legal logits once, and again for each step of a search: 16 a filter, and up to 9 at a tie.
    Source:   contract SMP-1 to SMP-4; oracle: reference.target.
    """
    count, device = len(words), logits.device

    def column(dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(count, dtype=dtype, device=device)

    found = Candidates(
        column(torch.int32), column(torch.float32), column(torch.float32), column(torch.float64), column(torch.int64),
        column(torch.int32),
    )  # fmt: skip
    size = logits.shape[1]
    _select[(count,)](
        logits, logits.stride(0), words, words.stride(0), words.shape[1], row_of, temperature, top_k, min_p, top_p,
        found.facts, found.top, found.scale, found.total, found.last_key, found.last_id, size,
        BLOCK=block_for(size, block), ID_STEPS=max(1, -(-(size - 1).bit_length() // 2)),
    )  # fmt: skip
    return found


@triton.jit
def is_candidate(keys, ids, last_key, last_id):
    """Whether tokens stand no later in the order than the last candidate."""
    return (keys > last_key) | ((keys == last_key) & (ids <= last_id))


@triton.jit
def _amount(values, members, top, scale, BY_WEIGHT: tl.constexpr):
    if BY_WEIGHT:
        weights = tl.exp((tl.where(members, values, top) - top) * scale).to(tl.float64)
        return tl.sum(tl.where(members, weights, 0.0), axis=0)
    return tl.sum(members.to(tl.float64), axis=0)


@triton.jit
def _measure(
    row, words, num_words, size, top, scale, last_key, last_id, low, step, tied_key,
    BY_ID: tl.constexpr, BY_WEIGHT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """How much of the candidates lies at or above each of three bounds; by id: among those of one key, below them."""
    first = tl.zeros([], dtype=tl.float64)
    second = tl.zeros([], dtype=tl.float64)
    third = tl.zeros([], dtype=tl.float64)
    for start in range(0, size, BLOCK):
        legal = legal_block(words, num_words, start, size, BLOCK)
        ids = start + tl.arange(0, BLOCK)
        values = tl.load(row + ids, mask=legal, other=0.0).to(tl.float32)
        keys = ordered(values)
        members = legal & is_candidate(keys, ids, last_key, last_id)
        if BY_ID:
            members = members & (keys == tied_key)
            first += _amount(values, members & (ids < low + step), top, scale, BY_WEIGHT)
            second += _amount(values, members & (ids < low + 2 * step), top, scale, BY_WEIGHT)
            third += _amount(values, members & (ids < low + 3 * step), top, scale, BY_WEIGHT)
        else:
            first += _amount(values, members & (keys >= low + step), top, scale, BY_WEIGHT)
            second += _amount(values, members & (keys >= low + 2 * step), top, scale, BY_WEIGHT)
            third += _amount(values, members & (keys >= low + 3 * step), top, scale, BY_WEIGHT)
    return first, second, third


@triton.jit
def _shorten(
    row, words, num_words, size, top, scale, last_key, last_id, goal,
    BY_WEIGHT: tl.constexpr, ID_STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The last token of the shortest beginning that amounts to `goal`."""
    none = tl.zeros([], dtype=tl.int64)
    low = none
    step = none + 0x40000000
    for _ in range(16):
        first, second, third = _measure(
            row, words, num_words, size, top, scale, last_key, last_id, low, step, none, False, BY_WEIGHT, BLOCK
        )
        low += step * ((first >= goal).to(tl.int64) + (second >= goal).to(tl.int64) + (third >= goal).to(tl.int64))
        step = step // 4
    above, _, _ = _measure(
        row, words, num_words, size, top, scale, last_key, last_id, low, none + 1, none, False, BY_WEIGHT, BLOCK
    )
    _, _, ties = _measure(
        row, words, num_words, size, top, scale, last_key, last_id, none, none + size, low, True, False, BLOCK
    )
    last = none + size
    if ties > 1:
        last = none
        step = none + 4 ** (ID_STEPS - 1)
        for _ in range(ID_STEPS):
            first, second, third = _measure(
                row, words, num_words, size, top, scale, last_key, last_id, last, step, low, True, BY_WEIGHT, BLOCK
            )
            first, second, third = above + first, above + second, above + third
            last += step * ((first < goal).to(tl.int64) + (second < goal).to(tl.int64) + (third < goal).to(tl.int64))
            step = step // 4
        # The old last id still ends the tied tokens of the old last key.
        last = tl.where(low == last_key, tl.minimum(last, last_id), last)
    else:
        last = tl.where(low == last_key, last_id, last)
    return low, last


@triton.jit
def _survey(row, words, num_words, size, BLOCK: tl.constexpr):
    """Facts, largest value, its smallest id and the number of legal tokens with any weight."""
    facts = tl.zeros([], dtype=tl.int32)
    top = tl.zeros([], dtype=tl.float32) - float("inf")
    best = tl.zeros([], dtype=tl.int64)
    count = tl.zeros([], dtype=tl.float64)
    for start in range(0, size, BLOCK):
        legal = legal_block(words, num_words, start, size, BLOCK)
        values = tl.load(row + start + tl.arange(0, BLOCK), mask=legal, other=0.0).to(tl.float32)
        facts = facts | facts_of(values, legal)
        comparable = tl.where(legal & (values == values), values, float("-inf"))  # noqa: PLR0124
        found, at = tl.max(comparable, axis=0, return_indices=True, return_indices_tie_break_left=True)
        best = tl.where(found > top, start + at, best)
        top = tl.maximum(top, found)
        count += tl.sum((comparable > float("-inf")).to(tl.float64), axis=0)
    return facts, top, best, count


@triton.jit
def _select(
    logits, row_stride, words, word_stride, num_words, row_of, temperature, top_k, min_p, top_p,
    facts_out, top_out, scale_out, total_out, key_out, id_out, size,
    BLOCK: tl.constexpr, ID_STEPS: tl.constexpr,
):  # fmt: skip
    index = tl.program_id(0)
    place = tl.load(row_of + index).to(tl.int64)
    # A mask that is left out covers nothing, so its facts are 0.
    size = tl.where(place < 0, 0, size)
    row = logits + place * row_stride
    words += index * word_stride
    facts, top, best, count = _survey(row, words, num_words, size, BLOCK)
    heat = tl.load(temperature + index)
    scale = tl.where(heat < 1e-5, 1.0, 1.0 / tl.where(heat < 1e-5, 1.0, heat))
    none = tl.zeros([], dtype=tl.int64)
    # Minus infinity is the key 0x7FFFFF: whatever lies above has some weight.
    last_key = none + 0x800000
    last_id = none + size
    total = tl.zeros([], dtype=tl.float64) + 1.0
    if facts == 1:
        if heat < 1e-5:
            last_key, last_id = tl.max(ordered(tl.zeros([1], dtype=tl.float32) + top), axis=0), best
        else:
            wanted = tl.load(top_k + index)
            if (wanted > 0) & (wanted < count):
                last_key, last_id = _shorten(
                    row, words, num_words, size, top, scale, last_key, last_id, wanted.to(tl.float64), False,
                    ID_STEPS, BLOCK,
                )  # fmt: skip
            least = tl.load(min_p + index)
            if least > 0:
                bound = top.to(tl.float64) + tl.log(least.to(tl.float64)) * heat
                rounded = bound.to(tl.float32)
                key = tl.max(ordered(tl.zeros([1], dtype=tl.float32) + rounded), axis=0)
                key += (rounded.to(tl.float64) < bound).to(tl.int64)
                last_id = tl.where(key > last_key, none + size, last_id)
                last_key = tl.maximum(key, last_key)
            _, _, total = _measure(
                row, words, num_words, size, top, scale, last_key, last_id, none, none, none, False, True, BLOCK
            )
            share = tl.load(top_p + index)
            if share < 1:
                last_key, last_id = _shorten(
                    row, words, num_words, size, top, scale, last_key, last_id, total * share, True, ID_STEPS, BLOCK
                )
                _, _, total = _measure(
                    row, words, num_words, size, top, scale, last_key, last_id, none, none, none, False, True, BLOCK
                )
    tl.store(facts_out + index, facts)
    tl.store(top_out + index, top)
    tl.store(scale_out + index, scale)
    tl.store(total_out + index, total)
    tl.store(key_out + index, last_key)
    tl.store(id_out + index, last_id.to(tl.int32))
