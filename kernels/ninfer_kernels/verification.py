"""Drafts accepted, corrected from the residual or followed by a bonus token, with the rows' faults told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from ninfer_kernels.bits import legal_block, ordered, uniform
from ninfer_kernels.candidates import Candidates, is_candidate
from ninfer_kernels.masking import BLOCK, block_for
from ninfer_kernels.proposals import Proposal

NO_TOKEN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """The step of each request."""

    tokens: torch.Tensor
    """i32 [B, K + 1]: accepted drafts and the token behind them; -1 from there on, and at a fault."""
    num_tokens: torch.Tensor
    """i32 [B]: how many tokens the step has; at a fault only the accepted drafts."""
    faults: torch.Tensor
    """i32 [B]: 0 none, 1 an empty support was reached, 2 unsound logits were."""


def verify_drafts(
    logits: torch.Tensor,
    words: torch.Tensor,
    row_of: torch.Tensor,
    candidates: Candidates,
    first_rows: torch.Tensor,
    num_drafts: torch.Tensor,
    drafts: torch.Tensor,
    proposal: Proposal | None,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    *,
    block: int = BLOCK,
) -> Verified:
    """Verify each request's drafts against its targets (SPC-1 to SPC-6); without drafts, draw a token.

    Formula:  draft d at i is accepted if uniform(seed, position + i, ACCEPT) * q_i(d) < p_i(d); the first rejected one
              is replaced by a draw from max(p_i - q_i, 0), from p_i where that is all 0 or d is -1; behind the last
              accepted one a draw from p. A draw takes the token, by ascending id, whose share of the cumulated weights
              holds its number. Without a proposal q_i is one-hot at d. p as in `candidates.Candidates`.
    Shapes:   logits, words, row_of as in `masking.apply_mask`, logits only read, candidates of the R masks; request b
              owns masks first_rows[b] .. first_rows[b] + num_drafts[b], the last one for the bonus token; first_rows,
              num_drafts [B] i32; drafts [B, K] i32; seeds, positions [B] i64.
    Units:    positions[b] is the place of the step's first token in its sequence.
    Moves:    masks and legal logits of one row a request, twice; its proposal row twice where a draft was rejected.
    Source:   contract SPC-1 to SPC-6, SMP-4, SMP-5; oracle: reference.verify.
    """
    count, size, device = len(first_rows), logits.shape[1], logits.device
    block = block_for(size, block)
    num_blocks = triton.cdiv(size, block)
    tokens = torch.full((count, drafts.shape[1] + 1), NO_TOKEN, dtype=torch.int32, device=device)
    num_tokens = torch.empty(count, dtype=torch.int32, device=device)
    faults = torch.empty(count, dtype=torch.int32, device=device)
    rejected = torch.empty(count, dtype=torch.int32, device=device)
    sums = torch.empty(count, 2, num_blocks, dtype=torch.float64, device=device)
    shape = (logits, logits.stride(0), words, words.stride(0), words.shape[1], row_of)
    target = (candidates.top, candidates.scale, candidates.total, candidates.last_key, candidates.last_id)
    kind, offered = _arguments_of(proposal, candidates)
    request = (first_rows, drafts, drafts.stride(0), *offered)
    _accept[(count,)](
        *shape, *target, *request, candidates.facts, num_drafts, seeds, positions, tokens, tokens.stride(0),
        num_tokens, faults, rejected, size, PROPOSAL=kind,
    )  # fmt: skip
    _sum_blocks[(count, num_blocks)](
        *shape, *target, *request, num_tokens, faults, rejected, sums, size, PROPOSAL=kind, BLOCK=block
    )
    _draw[(count,)](
        *shape, *target, *request, seeds, positions, tokens, tokens.stride(0), num_tokens, faults, rejected, sums,
        num_blocks, size, PROPOSAL=kind, BLOCK=block, BLOCKS=triton.next_power_of_2(num_blocks),
    )  # fmt: skip
    return Verified(tokens, num_tokens, faults)


def _arguments_of(proposal: Proposal | None, candidates: Candidates) -> tuple[int, tuple[Any, ...]]:
    """0 without a proposal, 1 for probabilities, 2 for logits; and what the kernels take of it."""
    if proposal is None:
        unused = candidates.top
        return 0, (unused, 0, 0, 0, 0, unused, unused, unused, unused)
    values, slab_of = proposal.values, proposal.slab_of
    shape = (values, values.stride(0), values.stride(1), values.shape[1], values.shape[2], slab_of)
    if proposal.tops is None:
        return 1, (*shape, slab_of, slab_of, slab_of)
    return 2, (*shape, proposal.tops, proposal.scales, proposal.totals)


@triton.jit
def _offered(
    proposal, slab_stride, position_stride, most, offered_size, slab_of, offered_tops, offered_scales, offered_totals,
    request, index, ids, mask, PROPOSAL: tl.constexpr,
):  # fmt: skip
    """q of tokens for draft `index` of a request."""
    mask = mask & (ids < offered_size)
    values = proposal + tl.load(slab_of + request).to(tl.int64) * slab_stride + index * position_stride + ids
    found = tl.load(values, mask=mask, other=0.0).to(tl.float32)
    if PROPOSAL == 2:
        place = request.to(tl.int64) * most + index
        top = tl.load(offered_tops + place)
        weights = tl.exp((tl.where(mask, found, top) - top) * tl.load(offered_scales + request)).to(tl.float64)
        offered = weights / tl.load(offered_totals + place)
    else:
        offered = found.to(tl.float64)
    return tl.where(mask, offered, 0.0)


@triton.jit
def _accept(
    logits, row_stride, words, word_stride, num_words, row_of, tops, scales, totals, last_keys, last_ids,
    first_rows, drafts, draft_stride, proposal, slab_stride, position_stride, most, offered_size, slab_of,
    offered_tops, offered_scales, offered_totals,
    facts, num_drafts, seeds, positions, tokens, token_stride, num_tokens, faults, rejected, size,
    PROPOSAL: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    first = tl.load(first_rows + request).to(tl.int64)
    count = tl.load(num_drafts + request)
    seed = tl.load(seeds + request)
    position = tl.load(positions + request)
    accepted = tl.zeros([], dtype=tl.int32)
    ended = tl.zeros([], dtype=tl.int32)
    fault = tl.zeros([], dtype=tl.int32)
    for index in range(count):
        if ended == 0:
            row = first + index
            known = tl.load(facts + row)
            if known == 1:
                draft = tl.load(drafts + request * draft_stride + index)
                inside = (draft >= 0) & (draft < size) & (draft < num_words * 32)
                token = tl.where(inside, draft, 0)
                word = tl.load(words + row * word_stride + token // 32)
                line = tl.load(row_of + row).to(tl.int64)
                value = tl.load(logits + line * row_stride + token).to(tl.float32)
                key = tl.max(ordered(tl.zeros([1], dtype=tl.float32) + value), axis=0)
                member = inside & (((word >> (token % 32)) & 1) != 0)
                member = member & is_candidate(key, token, tl.load(last_keys + row), tl.load(last_ids + row))
                weight = tl.exp((tl.where(member, value, 0.0) - tl.load(tops + row)) * tl.load(scales + row))
                likely = tl.where(member, weight.to(tl.float64) / tl.load(totals + row), 0.0)
                offered = tl.zeros([], dtype=tl.float64) + 1.0
                if PROPOSAL:
                    offered = _offered(
                        proposal, slab_stride, position_stride, most, offered_size, slab_of, offered_tops,
                        offered_scales, offered_totals, request, index, token, member, PROPOSAL,
                    )  # fmt: skip
                if member & (uniform(seed, position + index, 1) * offered < likely):
                    tl.store(tokens + request * token_stride + index, draft)
                    accepted += 1
                else:
                    ended = ended + 1
            else:
                ended = ended + 2
                fault = tl.where((known & 2) != 0, 2, 1)
    if ended == 0:
        known = tl.load(facts + first + count)
        fault = tl.where(known == 1, 0, tl.where((known & 2) != 0, 2, 1))
    tl.store(num_tokens + request, accepted + (fault == 0).to(tl.int32))
    tl.store(faults + request, fault)
    tl.store(rejected + request, (ended == 1).to(tl.int32))


@triton.jit
def _weights(
    logits, row_stride, words, word_stride, num_words, row_of, tops, scales, totals, last_keys, last_ids,
    first_rows, drafts, draft_stride, proposal, slab_stride, position_stride, most, offered_size, slab_of,
    offered_tops, offered_scales, offered_totals,
    request, index, is_rejected, start, size, PROPOSAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of one block: the weights of the residual (or of the target where nothing was rejected), and of the target."""
    row = tl.load(first_rows + request).to(tl.int64) + index
    legal = legal_block(words + row * word_stride, num_words, start, size, BLOCK)
    ids = start + tl.arange(0, BLOCK)
    line = tl.load(row_of + row).to(tl.int64)
    values = tl.load(logits + line * row_stride + ids, mask=legal, other=0.0).to(tl.float32)
    members = legal & is_candidate(ordered(values), ids, tl.load(last_keys + row), tl.load(last_ids + row))
    top = tl.load(tops + row)
    weights = tl.exp((tl.where(members, values, top) - top) * tl.load(scales + row)).to(tl.float64)
    target = tl.where(members, weights, 0.0) / tl.load(totals + row)
    left = target
    if is_rejected != 0:
        draft = tl.load(drafts + request * draft_stride + index)
        if draft >= 0:
            if PROPOSAL:
                offered = _offered(
                    proposal, slab_stride, position_stride, most, offered_size, slab_of, offered_tops, offered_scales,
                    offered_totals, request, index, ids, members, PROPOSAL,
                )  # fmt: skip
                left = tl.maximum(target - offered, 0.0)
            else:
                left = tl.where(ids == draft, 0.0, target)
    return left, target


@triton.jit
def _sum_blocks(
    logits, row_stride, words, word_stride, num_words, row_of, tops, scales, totals, last_keys, last_ids,
    first_rows, drafts, draft_stride, proposal, slab_stride, position_stride, most, offered_size, slab_of,
    offered_tops, offered_scales, offered_totals,
    num_tokens, faults, rejected, sums, size, PROPOSAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    block = tl.program_id(1)
    if tl.load(faults + request) == 0:
        left, target = _weights(
            logits, row_stride, words, word_stride, num_words, row_of, tops, scales, totals, last_keys, last_ids,
            first_rows, drafts, draft_stride, proposal, slab_stride, position_stride, most, offered_size, slab_of,
    offered_tops, offered_scales, offered_totals,
            request, tl.load(num_tokens + request) - 1, tl.load(rejected + request), block * BLOCK, size,
            PROPOSAL, BLOCK,
        )  # fmt: skip
        place = sums + request * 2 * tl.num_programs(1) + block
        tl.store(place, tl.sum(left, axis=0))
        tl.store(place + tl.num_programs(1), tl.sum(target, axis=0))


@triton.jit
def _draw(
    logits, row_stride, words, word_stride, num_words, row_of, tops, scales, totals, last_keys, last_ids,
    first_rows, drafts, draft_stride, proposal, slab_stride, position_stride, most, offered_size, slab_of,
    offered_tops, offered_scales, offered_totals,
    seeds, positions, tokens, token_stride, num_tokens, faults, rejected, sums, num_blocks, size,
    PROPOSAL: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    if tl.load(faults + request) == 0:
        index = tl.load(num_tokens + request) - 1
        is_rejected = tl.load(rejected + request)
        blocks = tl.arange(0, BLOCKS)
        place = sums + request * 2 * num_blocks + blocks
        amounts = tl.load(place, mask=blocks < num_blocks, other=0.0)
        has_rest = tl.sum(amounts, axis=0) > 0
        whole = tl.load(place + num_blocks, mask=blocks < num_blocks, other=0.0)
        amounts = tl.where(has_rest, amounts, whole)
        purpose = tl.where(is_rejected != 0, 2, 0)
        number = uniform(tl.load(seeds + request), tl.load(positions + request) + index, purpose)
        passed = tl.cumsum(amounts, axis=0)
        goal = number * tl.max(passed, axis=0)
        # Rounding may lead past the last block that holds anything, and past its last token.
        block = tl.minimum(
            tl.sum((passed <= goal).to(tl.int32), axis=0), tl.max(tl.where(amounts > 0, blocks, 0), axis=0)
        )
        before = tl.sum(tl.where(blocks < block, amounts, 0.0), axis=0)
        left, target = _weights(
            logits, row_stride, words, word_stride, num_words, row_of, tops, scales, totals, last_keys, last_ids,
            first_rows, drafts, draft_stride, proposal, slab_stride, position_stride, most, offered_size, slab_of,
    offered_tops, offered_scales, offered_totals,
            request, index, is_rejected, block * BLOCK, size, PROPOSAL, BLOCK,
        )  # fmt: skip
        weights = tl.where(has_rest, left, target)
        at = tl.arange(0, BLOCK)
        inner = tl.sum((before + tl.cumsum(weights, axis=0) <= goal).to(tl.int32), axis=0)
        token = block * BLOCK + tl.minimum(inner, tl.max(tl.where(weights > 0, at, 0), axis=0))
        tl.store(tokens + request * token_stride + index, token)
