"""Device functions that the kernels share: legality, order of logits, uniform numbers."""

from __future__ import annotations

import triton
import triton.language as tl

FINITE = 1
"""Fact of a row: one of its legal logits is finite."""
UNSOUND = 2
"""Fact of a row: one of its legal logits is NaN or plus infinity. A row is sound if its facts are exactly FINITE."""


@triton.jit
def legal_block(words, num_words, start, size, BLOCK: tl.constexpr):
    """Legality of tokens start .. start + BLOCK; ids behind the last word or from `size` on are illegal."""
    at = start + tl.arange(0, BLOCK)
    word = tl.load(words + at // 32, mask=(at < size) & (at // 32 < num_words), other=0)
    return ((word >> (at % 32)) & 1) != 0


@triton.jit
def ordered(values):
    """Keys of 32 bits, as int64, that compare like the float32 values they stand for; both zeros are equal."""
    bits = (values + 0.0).to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF
    return tl.where(bits >= 0x80000000, 0xFFFFFFFF - bits, bits + 0x80000000)


@triton.jit
def facts_of(values, legal):
    """FINITE and UNSOUND of a block's legal logits."""
    is_nan = values != values  # noqa: PLR0124 - the test for NaN
    broken = legal & (is_nan | (values == float("inf")))
    finite = legal & (values > float("-inf")) & (values < float("inf"))
    return tl.max(broken.to(tl.int32), axis=0) * 2 | tl.max(finite.to(tl.int32), axis=0)


@triton.jit
def uniform(seed, position, purpose):
    """`uniforms.uniform` on the device, in double precision."""
    zero = tl.zeros([1], dtype=tl.uint32)
    low = zero + (position & 0xFFFFFFFF).to(tl.uint32)
    high = zero + ((position >> 32) & 0xFFFFFFFF).to(tl.uint32)
    first, second, _, _ = tl.philox(seed, low, high, zero + purpose, zero)
    number = (first.to(tl.uint64) << 21) | (second.to(tl.uint64) >> 11)
    scaled = (number.to(tl.float64) + 0.5) / 9007199254740992.0
    return tl.max(tl.minimum(scaled, 1.0 - 1.0 / 9007199254740992.0), axis=0)
