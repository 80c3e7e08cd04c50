"""Drafts accepted, corrected from the residual or followed by a bonus token, with the rows' faults told apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ninfer_kernels.bits import legal_block, ordered, uniform
from ninfer_kernels.candidates import Candidates, is_candidate
from ninfer_kernels.masking import BLOCK

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
    candidates: Candidates,
    first_rows: torch.Tensor,
    num_drafts: torch.Tensor,
    drafts: torch.Tensor,
    proposal: torch.Tensor | None,
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
    Shapes:   logits [R, V], words [R, W], candidates of R rows; request b owns rows first_rows[b] ..
              first_rows[b] + num_drafts[b], the last one for the bonus token; first_rows, num_drafts [B] i32;
              drafts [B, K] i32; proposal [B, K, V] f32|bf16|f16, columns contiguous, or None; seeds, positions [B] i64.
    Units:    positions[b] is the place of the step's first token in its sequence.
    Moves:    masks and legal logits of one row a request, twice; its proposal row twice where a draft was rejected.
    Source:   contract SPC-1 to SPC-6, SMP-4, SMP-5; oracle: reference.verify.
    """
    count, size, device = len(first_rows), logits.shape[1], logits.device
    num_blocks = triton.cdiv(size, block)
    tokens = torch.full((count, drafts.shape[1] + 1), NO_TOKEN, dtype=torch.int32, device=device)
    num_tokens = torch.empty(count, dtype=torch.int32, device=device)
    faults = torch.empty(count, dtype=torch.int32, device=device)
    rejected = torch.empty(count, dtype=torch.int32, device=device)
    sums = torch.empty(count, 2, num_blocks, dtype=torch.float64, device=device)
    has_proposal = proposal is not None
    given = logits if proposal is None else proposal
    strides = (0, 0) if proposal is None else (proposal.stride(0), proposal.stride(1))
    shape = (logits, logits.stride(0), words, words.stride(0), words.shape[1])
    target = (candidates.top, candidates.scale, candidates.total, candidates.last_key, candidates.last_id)
    request = (first_rows, drafts, drafts.stride(0), given, *strides)
    _accept[(count,)](
        *shape, *target, *request, candidates.facts, num_drafts, seeds, positions, tokens, tokens.stride(0),
        num_tokens, faults, rejected, size, HAS_PROPOSAL=has_proposal,
    )  # fmt: skip
    _sum_blocks[(count, num_blocks)](
        *shape, *target, *request, num_tokens, faults, rejected, sums, size, HAS_PROPOSAL=has_proposal, BLOCK=block
    )
    _draw[(count,)](
        *shape, *target, *request, seeds, positions, tokens, tokens.stride(0), num_tokens, faults, rejected, sums,
        num_blocks, size, HAS_PROPOSAL=has_proposal, BLOCK=block, BLOCKS=triton.next_power_of_2(num_blocks),
    )  # fmt: skip
    return Verified(tokens, num_tokens, faults)


@triton.jit
def _accept(
    logits, row_stride, words, word_stride, num_words, tops, scales, totals, last_keys, last_ids,
    first_rows, drafts, draft_stride, proposal, request_stride, position_stride,
    facts, num_drafts, seeds, positions, tokens, token_stride, num_tokens, faults, rejected, size,
    HAS_PROPOSAL: tl.constexpr,
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
                value = tl.load(logits + row * row_stride + token).to(tl.float32)
                key = tl.max(ordered(tl.zeros([1], dtype=tl.float32) + value), axis=0)
                member = inside & (((word >> (token % 32)) & 1) != 0)
                member = member & is_candidate(key, token, tl.load(last_keys + row), tl.load(last_ids + row))
                weight = tl.exp((tl.where(member, value, 0.0) - tl.load(tops + row)) * tl.load(scales + row))
                likely = tl.where(member, weight.to(tl.float64) / tl.load(totals + row), 0.0)
                offered = tl.zeros([], dtype=tl.float64) + 1.0
                if HAS_PROPOSAL:
                    place = request.to(tl.int64) * request_stride + index * position_stride + token
                    offered = tl.load(proposal + place).to(tl.float64)
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
    logits, row_stride, words, word_stride, num_words, tops, scales, totals, last_keys, last_ids,
    first_rows, drafts, draft_stride, proposal, request_stride, position_stride,
    request, index, is_rejected, start, size, HAS_PROPOSAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of one block: the weights of the residual (or of the target where nothing was rejected), and of the target."""
    row = tl.load(first_rows + request).to(tl.int64) + index
    legal = legal_block(words + row * word_stride, num_words, start, size, BLOCK)
    ids = start + tl.arange(0, BLOCK)
    values = tl.load(logits + row * row_stride + ids, mask=legal, other=0.0).to(tl.float32)
    members = legal & is_candidate(ordered(values), ids, tl.load(last_keys + row), tl.load(last_ids + row))
    top = tl.load(tops + row)
    weights = tl.exp((tl.where(members, values, top) - top) * tl.load(scales + row)).to(tl.float64)
    target = tl.where(members, weights, 0.0) / tl.load(totals + row)
    left = target
    if is_rejected != 0:
        draft = tl.load(drafts + request * draft_stride + index)
        if draft >= 0:
            if HAS_PROPOSAL:
                place = request.to(tl.int64) * request_stride + index * position_stride + ids
                offered = tl.load(proposal + place, mask=members, other=0.0).to(tl.float64)
                left = tl.maximum(target - offered, 0.0)
            else:
                left = tl.where(ids == draft, 0.0, target)
    return left, target


@triton.jit
def _sum_blocks(
    logits, row_stride, words, word_stride, num_words, tops, scales, totals, last_keys, last_ids,
    first_rows, drafts, draft_stride, proposal, request_stride, position_stride,
    num_tokens, faults, rejected, sums, size, HAS_PROPOSAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    block = tl.program_id(1)
    if tl.load(faults + request) == 0:
        left, target = _weights(
            logits, row_stride, words, word_stride, num_words, tops, scales, totals, last_keys, last_ids,
            first_rows, drafts, draft_stride, proposal, request_stride, position_stride,
            request, tl.load(num_tokens + request) - 1, tl.load(rejected + request), block * BLOCK, size,
            HAS_PROPOSAL, BLOCK,
        )  # fmt: skip
        place = sums + request * 2 * tl.num_programs(1) + block
        tl.store(place, tl.sum(left, axis=0))
        tl.store(place + tl.num_programs(1), tl.sum(target, axis=0))


@triton.jit
def _draw(
    logits, row_stride, words, word_stride, num_words, tops, scales, totals, last_keys, last_ids,
    first_rows, drafts, draft_stride, proposal, request_stride, position_stride,
    seeds, positions, tokens, token_stride, num_tokens, faults, rejected, sums, num_blocks, size,
    HAS_PROPOSAL: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
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
            logits, row_stride, words, word_stride, num_words, tops, scales, totals, last_keys, last_ids,
            first_rows, drafts, draft_stride, proposal, request_stride, position_stride,
            request, index, is_rejected, block * BLOCK, size, HAS_PROPOSAL, BLOCK,
        )  # fmt: skip
        weights = tl.where(has_rest, left, target)
        at = tl.arange(0, BLOCK)
        inner = tl.sum((before + tl.cumsum(weights, axis=0) <= goal).to(tl.int32), axis=0)
        token = block * BLOCK + tl.minimum(inner, tl.max(tl.where(weights > 0, at, 0), axis=0))
        tl.store(tokens + request * token_stride + index, token)
