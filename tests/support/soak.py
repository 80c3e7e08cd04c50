"""A soak of a real server: good, bad, cancelled and dead-ending requests at once, for as long as is asked."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import jsonschema
import psutil

from tests.support.servers import Server

PATH = "/v1/completions"
WORKERS = 8
ANSWER_S = 300
"""Seconds an answer may take: a hang guard."""

RECORD = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
GOOD: tuple[tuple[dict[str, Any], Callable[[str], bool]], ...] = (
    ({"regex": "[a-f]{3,8}-[0-9]{2}"}, lambda text: re.fullmatch("[a-f]{3,8}-[0-9]{2}", text) is not None),
    ({"choice": ["yes", "no", "grün"]}, lambda text: text in ("yes", "no", "grün")),
    ({"json": RECORD}, lambda text: jsonschema.Draft202012Validator(RECORD).is_valid(json.loads(text))),
    ({"grammar": 'root ::= "(" (root | "x") ")"'}, lambda text: re.fullmatch(r"(\(+)x(\)+)", text) is not None),
)
BAD = (
    {"regex": "("},
    {"choice": []},
    {"json": {"type": "nope"}},
    {"grammar": "root ::= a"},
    {"json": {"$dynamicRef": "#a"}},
)
DEAD = {"structured_outputs": {"choice": ["yes", "no"]}, "allowed_token_ids": [5]}
ENDLESS = {"structured_outputs": {"regex": "[a-z]+"}, "max_tokens": 300, "logit_bias": {"151645": -100, "151643": -100}}


def soak(server: Server, seconds: float, *, seed: int = 0) -> Counter[str]:
    """Keep the server busy; how many requests of each sort were answered as they must be.

    Errors: AssertionError at the first wrong answer.
    """
    return asyncio.run(_soak(server, time.monotonic() + seconds, seed))


def resident_bytes(server: Server) -> int:
    """Bytes of memory that the server's processes hold."""
    parent = psutil.Process(server.pid)
    return sum(process.memory_info().rss for process in (parent, *parent.children(recursive=True)))


async def _soak(server: Server, until: float, seed: int) -> Counter[str]:
    done: Counter[str] = Counter()
    async with httpx.AsyncClient(base_url=server.url, timeout=ANSWER_S) as client:
        await asyncio.gather(*(_keep_asking(client, seed, worker, until, done) for worker in range(WORKERS)))
    return done


async def _keep_asking(client: httpx.AsyncClient, seed: int, worker: int, until: float, done: Counter[str]) -> None:
    sorts = {"good": _good, "bad": _bad, "cancelled": _cancelled, "dead": _dead}
    rng = random.Random(f"{seed}/{worker}")
    # Each sort is asked for at least twice, however slow the machine is.
    sort = list(sorts)[worker % len(sorts)]
    while time.monotonic() < until:
        await sorts[sort](client, rng)
        done[sort] += 1
        sort = rng.choice(["good", "good", *sorts])


def _body(rng: random.Random, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": f"{rng.random()} ", "max_tokens": 120, "temperature": 1.0, **fields}


async def _good(client: httpx.AsyncClient, rng: random.Random) -> None:
    constraint, holds = rng.choice(GOOD)
    answer = await client.post(PATH, json=_body(rng, structured_outputs=constraint))
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    # A recursive grammar may nest up to the token limit; what is cut there is no member, and says so.
    if choice["finish_reason"] == "length":
        assert not choice["constraint"]["terminated"], choice
        assert "grammar" in constraint, choice
    else:
        assert choice["finish_reason"] == "stop", choice
        assert holds(choice["text"]), choice


async def _bad(client: httpx.AsyncClient, rng: random.Random) -> None:
    answer = await client.post(PATH, json=_body(rng, structured_outputs=rng.choice(BAD)))
    assert answer.status_code == 400, answer.text


async def _dead(client: httpx.AsyncClient, rng: random.Random) -> None:
    answer = await client.post(PATH, json=_body(rng, **DEAD))
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "constraint_dead_end", answer.text


async def _cancelled(client: httpx.AsyncClient, rng: random.Random) -> None:
    async with client.stream("POST", PATH, json=_body(rng, **ENDLESS, stream=True)) as stream:
        assert stream.status_code == 200
        async for _ in stream.aiter_lines():
            return
