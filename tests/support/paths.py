"""Whole outputs as paths of tokens, with the probabilities that an engine's own log probabilities give them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import Ask, generate
from tests.support.oracles.chi_square import LEAST_EXPECTED

Path_ = tuple[int, ...]

MOST_LEGAL = 300
"""Tokens that may follow a path are fewer."""


def shares_of(
    llm: Any, begun: Path_, count: int, rest_of: Callable[[str], OutputConstraint], is_whole: Callable[[str], bool]
) -> dict[Path_, float]:
    """The probability of each output that is frequent among so many; of all others together under the empty path.

    `begun` stands in front of every path; `rest_of` tells what may follow a text, `is_whole` whether nothing may.
    """
    found: dict[Path_, float] = {}
    open_paths: dict[Path_, float] = {(): 1.0}
    sampling = {"temperature": 1.0, "max_tokens": 1, "logprobs": MOST_LEGAL}
    while open_paths:
        asks = [Ask((*begun, *path), rest_of(spelled(llm, path)), sampling) for path in open_paths]
        following: dict[Path_, float] = {}
        for (path, share), answer in zip(open_paths.items(), generate(llm, asks), strict=True):
            scores = (answer.only.logprobs or ({},))[0]
            assert abs(math.fsum(map(math.exp, scores.values())) - 1) < 1e-4
            following |= {(*path, token): share * math.exp(score) for token, score in scores.items()}
        frequent = {path: share for path, share in following.items() if share * count >= LEAST_EXPECTED}
        found |= {path: share for path, share in frequent.items() if is_whole(spelled(llm, path))}
        open_paths = {path: share for path, share in frequent.items() if path not in found}
    return {**found, (): 1 - math.fsum(found.values())}


def spelled(llm: Any, path: Path_) -> str:
    """Its text; an end token has none."""
    text: str = llm.get_tokenizer().decode(list(path), skip_special_tokens=True)
    return text
