"""The endpoints under /ninfer answer everything with a verdict or a client error, and walk along real tokens."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from ninfer_vllm.cli.main import main
from ninfer_vllm.cli.sources import constraint_from
from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.host.endpoints import PAGE, WAITING
from ninfer_vllm.host.endpoints_bodies import BODY_BYTES
from ninfer_vllm.host.http_errors import openai_body
from ninfer_vllm.host.playground import MAX_TEXT, SHOWN
from ninfer_vllm.languages.lowering import lower
from tests.support.endpoints import backend, endpoints_of

PRESETS = json.loads(re.findall(r'id="presets">(.*?)</script>', PAGE, re.DOTALL)[0])
WEATHER = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


class Client:
    """Speaks to the application without a network."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def post(self, path: str, **sent: Any) -> httpx.Response:
        return asyncio.run(self._send("POST", path, **sent))

    def get(self, path: str) -> httpx.Response:
        return asyncio.run(self._send("GET", path))

    async def _send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.request(method, f"/ninfer/{path}", **sent)


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(endpoints_of(backend())[0])


def source_of(preset: dict[str, Any]) -> dict[str, Any]:
    parsed = json.loads(preset["source"]) if preset["kind"] in ("choice", "tools") else preset["source"]
    return {"kind": preset["kind"], "source": parsed}


@pytest.mark.contract("API-7", "ERR-1")
@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        ({"kind": "regex", "source": "a+"}, None, None),
        ({"kind": "json_object"}, None, None),
        ({"kind": "choice", "source": ["a", "b"]}, None, None),
        ({"kind": "grammar", "source": 'root ::= "a"'}, None, None),
        ({"kind": "json_schema", "source": {"type": "integer"}}, None, None),
        ({"kind": "tools", "source": [WEATHER], "tool_choice": "required"}, None, None),
        ({"kind": "regex", "source": "a(?=b)"}, "invalid_regex", {"offset": 1}),
        ({"kind": "choice", "source": ["a", 1]}, "invalid_choice", {"index": 1}),
        ({"kind": "grammar", "source": "root ::= ("}, "invalid_grammar", {"line": 1, "column": 11}),
        ({"kind": "json_schema", "source": '{"type": "nope"}'}, "invalid_schema", {"pointer": "/type"}),
        ({"kind": "tools", "source": [{"type": "function"}]}, "invalid_tools", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_check_gives_the_verdict_of_the_command_line(client: Client, body: Any, code: str | None, place: Any) -> None:
    response = client.post("check", json=body)
    assert response.status_code == 200, response.text
    verdict = response.json()
    assert (verdict["kind"], verdict["supported"]) == (body["kind"], code is None)
    assert [problem["code"] for problem in verdict["problems"]] == ([] if code is None else [code])
    assert place is None or verdict["problems"][0]["place"] == place


@pytest.mark.contract("ERR-1", "ERR-2")
@pytest.mark.parametrize(
    ("kind", "suffix", "text"),
    [
        ("regex", "regex", "ab(?=c)"),
        ("grammar", "gbnf", 'root ::= "a"\nb ::= nam'),
        ("json_schema", "json", '{"properties": {"a": {"type": "nope"}}}'),
        ("json_schema", "json", '{"properties": {"a": {"$anchor": "x"}}}'),
        ("choice", "json", '["a", 1]'),
    ],
)
def test_an_error_is_the_same_in_python_on_the_command_line_and_over_http(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: Any, suffix: str, text: str
) -> None:
    with pytest.raises(ConstraintError) as raised:
        lower(constraint_from(kind, text, "refuse"))
    file = tmp_path / f"x.{suffix}"
    file.write_text(text)
    assert main(["check", str(file), "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)["problems"]
    source = json.loads(text) if kind == "choice" else text
    over_http = client.post("check", json={"kind": kind, "source": source}).json()["problems"]
    assert told == over_http == [raised.value.to_json()]
    body = openai_body(raised.value)["error"]
    assert {name: body[name] for name in ("code", "message", "place")} == told[0]


@pytest.mark.contract("API-7", "ERR-2")
@pytest.mark.parametrize(
    "content",
    [
        b"", b"[1]", b"{", b"\xff", b"null", b'{"kind": 1}', b'{"kind": "regex"}', b'{"kind": "regex", "source": 3}',
        b'{"kind": "choice", "source": {"a": 1}}', b'{"kind": "json_schema", "source": []}', b"[" * 100_000,
        b'{"kind": "json_schema", "source": "\\ud800"}', b'{"kind": "regex", "source": "\\ud800"}',
        b'{"kind": "json_schema", "source": {}, "unknown_schema_keywords": []}',
        b'{"kind": "tools", "source": [{}], "tool_choice": {"type": 1}}', b'{"kind": {}, "source": ""}',
        b'{"kind": "regex", "source": "a", "text": 1}', b'{"kind": "regex", "source": "a", "seed": -1}',
        b'{"kind": "regex", "source": "a", "text": "\\ud800"}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["check", "playground/walk", "playground/sample"])
def test_no_body_is_a_server_error(client: Client, path: str, content: bytes) -> None:
    response = client.post(path, content=content)
    assert response.status_code in (200, 400), response.text
    answer = response.json()
    assert response.status_code == 200 or (answer["supported"] is None and answer["unusable"])


@pytest.mark.contract("API-7")
def test_bodies_and_texts_are_bounded(client: Client) -> None:
    assert client.post("check", content=b"x" * (BODY_BYTES + 1)).status_code == 413
    long = client.post("playground/walk", json={"kind": "regex", "source": "a*", "text": "a" * (MAX_TEXT + 1)})
    assert long.status_code == 400


@pytest.mark.contract("API-7", "CMP-7")
def test_waiting_requests_are_bounded_and_the_event_loop_stays_free() -> None:
    app, endpoints = endpoints_of(backend())
    gate = threading.Event()
    endpoints._thread.submit(gate.wait)

    async def run() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            body = {"kind": "regex", "source": "a"}
            asked = [asyncio.create_task(client.post("/ninfer/check", json=body)) for _ in range(WAITING + 5)]
            refused, _ = await asyncio.wait(asked[WAITING:])
            health = await client.get("/ninfer/health")
            assert not any(task.done() for task in asked[:WAITING]), "they wait for the thread, which is busy"
            gate.set()
            answers = [*await asyncio.gather(*asked[:WAITING]), *(task.result() for task in refused), health]
        return [answer.status_code for answer in answers]

    try:
        *statuses, health = asyncio.run(run())
    finally:
        gate.set()
    assert statuses == [200] * WAITING + [503] * 5
    assert health == 200


@pytest.mark.contract("API-7")
def test_health_says_what_runs_here_and_fails_with_the_engine() -> None:
    well = Client(endpoints_of(backend())[0]).get("health")
    assert (well.status_code, well.json()["status"], well.json()["model"]) == (200, "ok", "m")
    assert well.json()["options"]["unknown_schema_keywords"] == "refuse"
    ill = Client(endpoints_of(backend(healthy=False))[0]).get("health")
    assert (ill.status_code, ill.json()["status"]) == (503, "engine_errored")


@pytest.mark.contract("API-7")
def test_a_server_with_api_keys_asks_for_one() -> None:
    guarded = Client(endpoints_of(backend(keys=["secret"]))[0])
    body = {"kind": "regex", "source": "a"}
    assert guarded.post("check", json=body).status_code == 401
    assert guarded.post("check", json=body, headers={"Authorization": "Bearer secret"}).status_code == 200
    assert guarded.get("playground").status_code == 200


@pytest.mark.contract("GDE-12")
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset["name"])
def test_every_preset_compiles_and_every_sample_of_it_is_complete(client: Client, preset: dict[str, Any]) -> None:
    asked = source_of(preset)
    assert client.post("check", json=asked).json()["supported"], preset["name"]
    shown = client.post("playground/walk", json={**asked, "text": preset["text"]}).json()
    assert shown["failing"] is None
    for seed in range(5):
        text = client.post("playground/sample", json={**asked, "seed": seed}).json()["text"]
        walk = client.post("playground/walk", json={**asked, "text": text}).json()
        assert (walk["complete"], walk["failing"]) == (True, None), text


@pytest.mark.contract("GDE-12", "GDE-3")
def test_walk_tells_the_legal_set_the_state_the_distance_and_the_failing_byte(client: Client) -> None:
    walk = client.post("playground/walk", json={"kind": "regex", "source": "ab(cd)?", "text": "abx"}).json()
    first, last = walk["steps"][0], walk["steps"][-1]
    spellings = backend().preparer.vocabulary.spellings
    legal = {spelling.decode() for spelling in spellings if spelling and b"abcd".startswith(spelling)}
    assert {token["text"] for token in first["legal"]} == legal
    assert (first["num_legal"], first["distance"], first["complete"], first["state"]) == (len(legal), 2, False, 0)
    assert last["token"]["text"] in ("x", "bx", "abx")
    assert (walk["failing"]["offset"], walk["failing"]["byte"], walk["complete"]) == (2, ord("x"), False)


@pytest.mark.contract("GDE-12")
def test_long_legal_sets_are_counted_and_cut_with_the_end_first(client: Client) -> None:
    walk = client.post("playground/walk", json={"kind": "regex", "source": ".*", "text": "a"}).json()
    step = walk["steps"][-1]
    assert len(step["legal"]) == SHOWN < step["num_legal"]
    assert step["legal"][0]["is_end"]


@pytest.mark.contract("GDE-12")
def test_page_loads_nothing_else_and_names_no_other_place() -> None:
    assert not re.findall(r"(?:src|href)=\"(?!data:,)|https?://|@import|url\(", PAGE)
