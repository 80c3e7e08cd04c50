"""What a request's own token restrictions rule out of the tokens that were sampled."""

from __future__ import annotations

import pytest
from vllm import SamplingParams

from ninfer_vllm.host.restrictions import num_permitted


def with_bad_words(*words: list[int]) -> SamplingParams:
    params = SamplingParams(bad_words=["x"])
    params._bad_words_token_ids = list(words)
    return params


@pytest.mark.contract("REQ-8", "ERR-4")
@pytest.mark.parametrize(
    ("params", "before", "tokens", "count"),
    [
        (SamplingParams(), [1], [2, 3], 2),
        (SamplingParams(allowed_token_ids=[2, 3]), [9], [2, 3], 2),
        (SamplingParams(allowed_token_ids=[2]), [9], [2, 3], 1),
        (SamplingParams(allowed_token_ids=[2]), [], [0], 0),
        (with_bad_words([7]), [], [7], 0),
        (with_bad_words([5, 7]), [], [7], 1),
        (with_bad_words([5, 7]), [5], [7], 0),
        (with_bad_words([5, 7]), [5, 6], [7], 1),
        (with_bad_words([5, 6, 7]), [4, 5], [6, 7], 1),
        (with_bad_words([5, 6, 7], [6]), [5], [6, 7], 0),
    ],
)
def test_tokens_are_permitted_up_to_the_first_that_is_ruled_out(
    params: SamplingParams, before: list[int], tokens: list[int], count: int
) -> None:
    assert num_permitted(params, before, tokens) == count
