"""Counter-based uniform numbers."""

from __future__ import annotations

import itertools
import math

import pytest
from ninfer_kernels.uniforms import Purpose, philox, uniform

# The generator's own published known answers: key, counter, words.
KNOWN = [
    (0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((1 << 64) - 1, (1 << 128) - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        0x299F31D0A4093822,
        0x0370734413198A2E85A308D3243F6A88,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
NUMBERS = 20_000


@pytest.mark.contract("SMP-5")
@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_philox_gives_the_published_words(key: int, counter: int, words: tuple[int, ...]) -> None:
    assert philox(key, counter) == words


@pytest.mark.contract("SMP-5")
def test_number_depends_on_seed_position_and_purpose_alone() -> None:
    keys = list(itertools.product((0, 1, -1, 1 << 40), (0, 1, 1 << 33), Purpose))
    numbers = [uniform(seed, position, purpose) for seed, position, purpose in keys]
    assert len(set(numbers)) == len(keys)
    assert [uniform(*key) for key in reversed(keys)] == numbers[::-1]


@pytest.mark.parametrize("varied", ["seed", "position"])
def test_numbers_are_uniform_along_seeds_and_positions(varied: str) -> None:
    """Kolmogorov and Smirnov's distance, at level 1e-6; and no correlation of neighbours."""
    keys = ((at, 7) if varied == "seed" else (7, at) for at in range(NUMBERS))
    numbers = [uniform(seed, position, Purpose.DRAW) for seed, position in keys]
    assert all(0 < number < 1 for number in numbers)
    distance = max(abs(number - at / NUMBERS) for at, number in enumerate(sorted(numbers)))
    assert distance < math.sqrt(math.log(2 / 1e-6) / 2 / NUMBERS) + 1 / NUMBERS
    together = sum((a - 0.5) * (b - 0.5) for a, b in itertools.pairwise(numbers)) / (NUMBERS - 1)
    # Standard error of the mean of products of two uniforms is 1 / (12 sqrt n).
    assert abs(together) < 5 / (12 * math.sqrt(NUMBERS))


def test_extremes_of_the_words_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ((0, 0, 0, 0), (0xFFFFFFFF,) * 4):
        monkeypatch.setattr("ninfer_kernels.uniforms.philox", lambda key, counter, words=words: words)
        assert 0 < uniform(1, 1, Purpose.DRAW) < 1
