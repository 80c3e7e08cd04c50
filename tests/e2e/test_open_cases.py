"""Cases from public reports, against a real server with a reasoning parser: status, place, validity, liveness."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest

from ninfer_vllm.embedded import build
from tests.support.cases import open_cases
from tests.support.servers import Server, serving

pytestmark = [pytest.mark.engine, pytest.mark.server]
MESSAGES = [{"role": "user", "content": "hi"}]
IN_SCOPE = {
    "ht-001", "ht-002", "ht-008", "ht-012", "ht-013", "ht-027", "ht-028", "ht-029", "ht-030", "ht-031", "ht-033",
    "ht-034", "ht-036", "ht-037",
}  # fmt: skip
REFUSED_BY_CONTRACT = {"ht-012": "ignore_eos", "ht-034": "ignore_eos", "ht-033": "stop"}
"""Cases that expect an answer where the contract refuses a field by name (REQ-7)."""
HANG_S = 600
"""What stalls takes for ever; what does not takes seconds, or a minute where two engines share two slow cores."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(build("tiny-qwen3"), "--reasoning-parser", "qwen3") as running:
        yield running


def ask(server: Server, request: dict[str, Any]) -> Any:
    fields = {name: value for name, value in request.items() if name not in ("endpoint", "server")}
    if request.get("endpoint") == "/v1/completions":
        return server.post("/v1/completions", {"model": "m", "max_tokens": 60, "temperature": 1.0, **fields})
    body = {"model": "m", "messages": MESSAGES, "max_tokens": 60, "temperature": 1.0}
    body["chat_template_kwargs"] = {"enable_thinking": False}
    return server.post("/v1/chat/completions", {**body, **fields})


@pytest.mark.contract("ERR-2", "ERR-6", "REQ-7", "CMP-9")
@pytest.mark.parametrize("case", [case for case in open_cases("http") if case.id in IN_SCOPE or case.id == "absent"])
def test_reported_requests_are_answered_as_they_should_be(server: Server, case: dict[str, Any]) -> None:
    request, expected = case["constraint"]["request"], case["constraint"]["expect"]
    steps = request.get("sequence", [request])
    started = time.monotonic()
    answers = [ask(server, step) for step in steps]
    assert time.monotonic() - started < HANG_S
    _check_status(case["id"], answers[-1], expected)
    for step, answer in zip(steps, answers, strict=True):
        if answer.status_code == 200:
            _check_valid(step["structured_outputs"], answer.json()["choices"][0])
    assert server.healthy()


def _check_status(name: str, answer: Any, expected: dict[str, Any]) -> None:
    if name in REFUSED_BY_CONTRACT:
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == REFUSED_BY_CONTRACT[name]
    elif expected["status"] == 400:
        error = answer.json()["error"]
        assert answer.status_code == 400
        assert error["message"]
        assert expected["where"].split("/")[-1].lstrip("$") in error["param"]
    else:
        assert answer.status_code in (200, 400), answer.text


def _check_valid(constraint: dict[str, Any], choice: dict[str, Any]) -> None:
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    if choice["finish_reason"] == "length":
        assert not choice["constraint"]["terminated"]
    elif "json" in constraint:
        jsonschema.validate(json.loads(text), constraint["json"])
    elif "choice" in constraint:
        assert text in constraint["choice"]


@pytest.mark.contract("ERR-6", "CMP-9")
@pytest.mark.parametrize("case", [case for case in open_cases("http") if case.id in ("ht-031", "absent")])
def test_a_costly_grammar_does_not_stall_other_requests(server: Server, case: dict[str, Any]) -> None:
    small = {"structured_outputs": {"choice": ["a"]}}
    assert ask(server, small).status_code == 200
    with ThreadPoolExecutor(1) as pool:
        costly = pool.submit(ask, server, case["constraint"]["request"])
        slowest = 0.0
        for _ in range(5):
            started = time.monotonic()
            assert ask(server, small).status_code == 200
            slowest = max(slowest, time.monotonic() - started)
        assert costly.result(timeout=HANG_S).status_code in (200, 400)
    assert slowest < HANG_S


@pytest.mark.contract("CMP-9", "ERR-6")
def test_a_schema_that_explodes_is_refused_or_answered_in_bounded_time(server: Server) -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for level in range(11):
        branch = {"type": "object", "properties": {"k": {"const": level}, "v": schema}, "required": ["k", "v"]}
        schema = {"oneOf": [branch, {"type": "array", "items": schema}]}
    started = time.monotonic()
    answer = ask(server, {"structured_outputs": {"json": schema}})
    assert answer.status_code in (200, 400), answer.text
    assert time.monotonic() - started < HANG_S
    assert server.healthy()


@pytest.mark.contract("THK-1", "THK-2", "GEN-7")
@pytest.mark.parametrize("case", [case for case in open_cases("thinking") if case.id in ("th-001", "absent")])
def test_answer_is_constrained_from_the_first_token_where_thinking_is_off(server: Server, case: dict[str, Any]) -> None:
    schema = case["constraint"]["response_format"]
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for seed in range(4):
        choice = ask(server, {"response_format": form, "seed": seed}).json()["choices"][0]
        assert choice["constraint"]["reasoning_tokens"] == 0
        if choice["finish_reason"] == "stop":
            text = choice["message"]["content"] or choice["message"]["reasoning"]
            jsonschema.validate(json.loads(text), schema)
