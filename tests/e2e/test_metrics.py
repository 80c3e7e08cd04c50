"""Prometheus metrics of real servers agree with the records of the very requests they counted."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from ninfer_vllm.embedded import build
from tests.support.metrics import Scrape
from tests.support.servers import ANSWER_SECONDS, Server, serving

pytestmark = [pytest.mark.engine, pytest.mark.server]

PROMPTS = 10
"""Requests of one call: the completions entry takes a list of prompts."""

SETTLE_S = 300
"""Seconds that an abandoned request may take to be counted: a hang guard."""

CONTEXT = 32_768
"""Tokens of a request at most: the model's own limit."""

ENDLESS = 30_000
"""Tokens of a request that is abandoned: on the fastest machine they take many times what noticing takes."""

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations"

CACHE_BYTES = 150_000
"""Room for two of the load's grammars, each of which holds at least one row of the vocabulary."""

CANCELLED = ("content", "regex", "cancelled")
"""Branch, kind and outcome of an abandoned request."""

ENDINGS = {"stop": "complete", "length": "truncated", "abort": "cancelled"}


def load(number: int) -> dict[str, Any]:
    """The fields of call `number`: every kind, ends of its own and ends by length, and three refusals."""
    return (
        {"structured_outputs": {"choice": ["a", "b", str(number)]}},
        {"structured_outputs": {"regex": f"[a-c]{{2}}{number}"}},
        {"structured_outputs": {"regex": "[ab]{40}"}, "max_tokens": 2},
        {"structured_outputs": {"grammar": 'root ::= "x" | "y"'}},
        {"structured_outputs": {"json": {"const": number}}},
        {"structured_outputs": {"json_object": True}, "max_tokens": 3},
        {"structured_outputs": {"choice": ["a", "b"]}},
        {"structured_outputs": {"regex": "("}},
        {"structured_outputs": {"json": {"$anchor": "x"}}},
        {"structured_outputs": {"choice": ["a"]}, "stop": ["x"]},
    )[number % 10]


def call(server: Server, number: int) -> httpx.Response:
    prompts = [f"{number} {at}" for at in range(PROMPTS)]
    body = {"model": "m", "prompt": prompts, "temperature": 1.0, "seed": number, "max_tokens": 12, **load(number)}
    return server.post("/v1/completions", body)


def answers(server: Server, calls: int) -> list[httpx.Response]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda number: call(server, number), range(calls)))


def agree(scrape: Scrape, responses: Sequence[httpx.Response]) -> None:
    """Compare every metric with what the responses told."""
    choices = [choice for response in responses if response.is_success for choice in response.json()["choices"]]
    records = [choice["constraint"] for choice in choices]
    ended = Counter(
        (record["branch"], record["kind"], ENDINGS[choice["finish_reason"]])
        for choice, record in zip(choices, records, strict=True)
    )
    assert scrape.by_labels("ninfer_requests_total") == ended
    assert scrape.by_labels("ninfer_grammar_cache_requests_total") == Counter((record["cache"],) for record in records)
    assert scrape.total("ninfer_mask_positions_total") == sum(record["mask_positions"] for record in records)
    assert scrape.total("ninfer_compile_seconds_count") == sum(record["cache"] == "built" for record in records)
    assert scrape.total("ninfer_compile_seconds_sum") > 0
    assert scrape.total("ninfer_mask_seconds_total") > 0
    refused: Counter[tuple[str, ...]] = Counter()
    for response in responses:
        if response.status_code == 400:
            code = response.json()["error"]["code"]
            # A constraint is judged once a call; parameters beside it once a prompt, each being a request of its own.
            refused[(code,)] += PROMPTS if code == "conflicting_constraint" else 1
    assert scrape.by_labels("ninfer_refusals_total") == refused


def until(server: Server, holds: Callable[[Scrape], bool]) -> Scrape:
    """The first scrape of which something holds."""
    deadline = time.monotonic() + SETTLE_S
    while not holds(scrape := Scrape.of(server)):
        assert time.monotonic() < deadline, scrape.values
        time.sleep(0.2)
    return scrape


def abandon(server: Server) -> None:
    """Leave a stream behind its first event; it can not end by itself before that is noticed."""
    body = {
        "model": "m", "prompt": "x", "stream": True, "structured_outputs": {"regex": "[ab]+"},
        "min_tokens": ENDLESS, "max_tokens": ENDLESS,
    }  # fmt: skip
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=ANSWER_SECONDS) as response:
        next(response.iter_lines())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    small_cache = f'{{"ninfer": {{"grammar_cache_bytes": {CACHE_BYTES}}}}}'
    options = ("--additional-config", small_cache, "--max-model-len", str(CONTEXT))
    with serving(build("tiny-qwen3"), *options) as running:
        yield running


@pytest.mark.contract("OBS-3", "OBS-1")
def test_metrics_agree_with_the_records_of_a_mixed_load_of_500_requests(server: Server) -> None:
    responses = answers(server, 500 // PROMPTS)
    assert Counter(response.status_code for response in responses) == {200: 35, 400: 15}
    agree(Scrape.of(server), responses)


@pytest.mark.contract("OBS-3")
def test_dead_ends_and_abandoned_requests_are_counted_when_they_end(server: Server) -> None:
    before = Scrape.of(server)
    body = {"model": "m", "prompt": "x", "structured_outputs": {"choice": ["a"]}, "allowed_token_ids": [5]}
    assert server.post("/v1/completions", body).status_code == 422
    for _ in range(3):
        abandon(server)
    after = until(server, lambda scrape: scrape.by_labels("ninfer_requests_total").get(CANCELLED, 0) >= 3)
    assert after.by_labels("ninfer_requests_total")[CANCELLED] == 3
    failed = ("undecided", "choice", "failed")
    assert after.by_labels("ninfer_requests_total")[failed] == 1
    assert after.total("ninfer_dead_ends_total") - before.total("ninfer_dead_ends_total") == 1
    assert after.total("ninfer_requests_total") - before.total("ninfer_requests_total") == 4
    assert after.by_labels("ninfer_refusals_total") == before.by_labels("ninfer_refusals_total")


@pytest.mark.contract("OBS-3")
def test_dashboard_and_alerts_ask_for_what_a_live_server_shows(server: Server) -> None:
    live = set(Scrape.of(server).values)
    for name in ("dashboard.json", "alerts.yaml"):
        asked = set(re.findall(r"\bninfer_\w+", (OPERATIONS / name).read_text(encoding="utf-8")))
        assert asked - live == set()


@pytest.mark.contract("OBS-3")
def test_evictions_and_bytes_of_a_small_cache_are_seen(server: Server) -> None:
    scrape = Scrape.of(server)
    assert 0 < scrape.total("ninfer_grammar_cache_bytes") <= CACHE_BYTES
    assert scrape.total("ninfer_grammar_cache_evictions_total") > 0


@pytest.mark.contract("OBS-3")
def test_metrics_agree_with_the_records_of_two_api_servers_over_two_engines() -> None:
    layout = ("--data-parallel-size", "2", "--api-server-count", "2")
    with serving(build("tiny-qwen3"), *layout, "--max-model-len", str(CONTEXT)) as server:
        responses = answers(server, 20)
        agree(Scrape.of(server), responses)
        # At once, so that one server does not take all of them.
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: abandon(server), range(8)))
        after = until(server, lambda scrape: scrape.by_labels("ninfer_requests_total").get(CANCELLED, 0) >= 8)
        assert after.by_labels("ninfer_requests_total")[CANCELLED] == 8
