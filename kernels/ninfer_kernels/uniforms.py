"""Counter-based uniform numbers: one for each (seed, position, purpose), wherever and whenever it is asked for.

A row's stream depends neither on its place in a batch, nor on other rows, nor on how often something was recomputed
(SMP-5): the generator has no state, only a key and a counter.
"""

from __future__ import annotations

from enum import IntEnum

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
MANTISSA_BITS = 53


class Purpose(IntEnum):
    """What a number decides; numbers of different purposes at one position are independent."""

    DRAW = 0
    """A token drawn from the target: a plain step's, or the bonus token."""
    ACCEPT = 1
    """Whether a draft token is accepted."""
    CORRECT = 2
    """The token drawn from the residual where a draft token was rejected."""


def philox(key: int, counter: int) -> tuple[int, int, int, int]:
    """Four 32-bit words of Philox 4x32 with ten rounds.

    Units:   key 64 bits, counter 128 bits, both little end first.
    Source:  Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
    """
    first, second, third, fourth = (counter >> shift & WORD for shift in (0, 32, 64, 96))
    low, high = key & WORD, key >> 32 & WORD
    for _ in range(ROUNDS):
        left, right = first * MULTIPLIERS[0], third * MULTIPLIERS[1]
        first, second, third, fourth = (
            (right >> 32) ^ second ^ low,
            right & WORD,
            (left >> 32) ^ fourth ^ high,
            left & WORD,
        )
        low, high = (low + KEY_STEPS[0]) & WORD, (high + KEY_STEPS[1]) & WORD
    return first, second, third, fourth


def uniform(seed: int, position: int, purpose: Purpose) -> float:
    """The number of one decision, strictly between 0 and 1.

    Formula:  (first * 2**21 + second // 2**11 + 0.5) / 2**53 of Philox's words, whose key is the seed and whose counter
              is position + purpose * 2**64.
    Units:    seed any integer, its low 64 bits count; position 0 to 2**64 - 1, the token's place in its sequence.
    """
    first, second, _, _ = philox(seed & (1 << 64) - 1, position | int(purpose) << 64)
    # Odd over 2**54: neither end can be reached, and rounding to a float64 cannot reach 1 either.
    return min(((first << 21 | second >> 11) + 0.5) / (1 << MANTISSA_BITS), 1 - 2.0**-MANTISSA_BITS)
