"""What a request's own restrictions rule out: `allowed_token_ids` and `bad_words` (REQ-8).

Where a constraint and these restrictions together leave no candidate, the host samples a token from a row in which
every logit is minus infinity. Such a token is illegal by the mask or ruled out by the request, so it shows afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.sampling_params import SamplingParams


def num_permitted(params: SamplingParams, before: Sequence[int], tokens: Sequence[int]) -> int:
    """How many of the sampled `tokens`, behind the output `before`, the request itself permits."""
    words = params.bad_words_token_ids or ()
    if params.allowed_token_ids is None and not words:
        return len(tokens)
    longest = max(map(len, words), default=0)
    output = list(before[max(0, len(before) - longest) :])
    for index, token in enumerate(tokens):
        if _is_ruled_out(params, output, token):
            return index
        output.append(token)
    return len(tokens)


def _is_ruled_out(params: SamplingParams, output: Sequence[int], token: int) -> bool:
    if params.allowed_token_ids is not None and token not in params.allowed_token_ids:
        return True
    words = params.bad_words_token_ids or ()
    return any(token == word[-1] and _ends_with(output, word[:-1]) for word in words)


def _ends_with(output: Sequence[int], tail: Sequence[int]) -> bool:
    return len(tail) <= len(output) and list(output[len(output) - len(tail) :]) == list(tail)
