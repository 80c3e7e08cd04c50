"""A real server's own endpoints, its log, and where its times are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ninfer_vllm.embedded import build
from tests.support.servers import ANSWER_SECONDS, Server, serving

pytestmark = [pytest.mark.engine, pytest.mark.server]

SECRET = "zq7secret"
"""Stands in a schema, a grammar, a choice and an output, and must not stand in the log."""

SLOW = "|".join(f"(a{{{number}}}|b{{1,60}}){{1,6}}" for number in range(2, 14))
"""An expression that takes a while to lower."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    logged = {"VLLM_LOGGING_LEVEL": "INFO"}
    with serving(build("tiny-qwen3"), "--constraint-timings", environment=logged) as running:
        yield running


def complete(server: Server, **fields: object) -> httpx.Response:
    return server.post("/v1/completions", {"model": "m", "prompt": "x", "max_tokens": 30, **fields})


@pytest.mark.contract("API-7")
def test_endpoints_of_a_selected_server_answer(server: Server) -> None:
    health = httpx.get(f"{server.url}/ninfer/health", timeout=ANSWER_SECONDS)
    assert (health.status_code, health.json()["status"], health.json()["model"]) == (200, "ok", "m")
    verdict = server.post("/ninfer/check", {"kind": "regex", "source": "a(?=b)"})
    assert (verdict.status_code, verdict.json()["problems"][0]["code"]) == (200, "invalid_regex")
    page = httpx.get(f"{server.url}/ninfer/playground", timeout=ANSWER_SECONDS)
    assert page.headers["content-type"].startswith("text/html")
    walk = server.post("/ninfer/playground/walk", {"kind": "choice", "source": ["yes", "no"], "text": "ye"}).json()
    assert (walk["failing"], walk["complete"], walk["steps"][-1]["distance"]) == (None, False, 1)


@pytest.mark.contract("OBS-6")
def test_nothing_that_a_user_sent_or_got_is_in_the_log(server: Server) -> None:
    schema = {
        "type": "object",
        "properties": {SECRET: {"const": SECRET}},
        "required": [SECRET],
        "additionalProperties": False,
    }
    answers = [
        complete(server, structured_outputs=constraint)
        for constraint in (
            {"json": schema}, {"choice": [SECRET]}, {"regex": SECRET}, {"grammar": f'root ::= "{SECRET}"'},
            {"regex": f"{SECRET}("}, {"grammar": f"root ::= {SECRET}"}, {"json": {"properties": {SECRET: {"not": 1}}}},
        )
    ]  # fmt: skip
    assert [answer.status_code for answer in answers] == [200] * 4 + [400] * 3
    assert all(SECRET in answer.text for answer in answers[:4])
    assert complete(server, structured_outputs={"regex": f"{SECRET}b"}, allowed_token_ids=[5]).status_code == 422
    server.post("/ninfer/check", {"kind": "regex", "source": f"{SECRET}("})
    log = server.log.read_text()
    assert "POST /v1/completions" in log, "the log is on"
    assert SECRET not in log


@pytest.mark.contract("OBS-5")
def test_preparation_queue_and_prefill_are_parts_of_the_whole_time(server: Server) -> None:
    before = _seconds(server)
    answer = complete(server, structured_outputs={"regex": SLOW})
    after = _seconds(server)
    prepared = answer.json()["choices"][0]["constraint"]["timings"]["prepare_s"]
    parts = [
        after[name] - before[name] for name in ("vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds")
    ]
    assert prepared > 0
    assert prepared + sum(parts) <= answer.elapsed.total_seconds()
    again = complete(server, structured_outputs={"regex": SLOW}).json()["choices"][0]["constraint"]
    assert again["cache"] == "hit"
    assert again["timings"]["prepare_s"] < prepared / 2, "what the first request has lowered is not this one's work"


def _seconds(server: Server) -> dict[str, float]:
    text = httpx.get(f"{server.url}/metrics", timeout=ANSWER_SECONDS).text
    families = text_string_to_metric_families(text)
    samples = (sample for family in families for sample in family.samples)
    return {re.sub("_sum$", "", sample.name): sample.value for sample in samples if sample.name.endswith("seconds_sum")}
