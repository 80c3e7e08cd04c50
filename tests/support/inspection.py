"""What tests look at inside an engine that runs beside them; every function here is called with the `LLM`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.engine import Answer, Ask, answer_of, params_of, prompt_of


@dataclass(frozen=True, slots=True)
class EngineState:
    """What of an engine should be as before once every request has ended."""

    sessions: int
    step_rows: int
    mask_calls: int
    free_blocks: int
    unfinished: int


def scheduler_of(llm: Any) -> Any:
    """The scheduler of an engine core in this process."""
    return llm.llm_engine.engine_core.engine_core.scheduler


def manager_of(llm: Any) -> Any:
    """The session manager of an engine core in this process."""
    return scheduler_of(llm).structured_output_manager


def state_of(llm: Any) -> EngineState:
    """The engine's state now."""
    manager = manager_of(llm)
    return EngineState(
        len(manager.sessions),
        len(manager.step_rows),
        manager.mask_calls,
        scheduler_of(llm).kv_cache_manager.block_pool.get_num_free_blocks(),
        llm.llm_engine.get_num_unfinished_requests(),
    )


def blocks_of(llm: Any, name: str) -> int:
    """How many KV blocks the request that was added under `name` holds."""
    held = 0
    for pool in scheduler_of(llm).kv_cache_manager.coordinator.single_type_managers:
        held += sum(len(blocks) for key, blocks in pool.req_to_blocks.items() if key.startswith(name))
    return held


def add(llm: Any, asks: Mapping[str, Ask]) -> dict[str, str]:
    """Queue requests under names, and wait for their grammars, so that all start in one step; the engine's own ids."""
    engine = llm.llm_engine
    ids = {name: engine.add_request(name, prompt_of(ask), params_of(ask)) or name for name, ask in asks.items()}
    for structured in (request.structured_output_request for request in scheduler_of(llm).requests.values()):
        while structured is not None and not structured.is_grammar_ready:
            time.sleep(0.01)
    return ids


def step(llm: Any, answers: dict[str, Answer]) -> None:
    """One step of the engine; ended requests are added to `answers`."""
    for result in llm.llm_engine.step():
        if result.finished:
            answers[result.request_id] = answer_of(result)


def drain(llm: Any, answers: dict[str, Answer]) -> None:
    """Step until nothing is left."""
    while llm.llm_engine.has_unfinished_requests():
        step(llm, answers)


def spelling_table(llm: Any) -> dict[int, bytes]:
    """The bytes of every ordinary token, from the tokenizer's own description."""
    table = _bytes_of_chars()
    tokenizer = llm.get_tokenizer()
    added = tokenizer.get_added_vocab()
    pieces = {piece: token for piece, token in tokenizer.get_vocab().items() if piece not in added}
    return {token: bytes(table[char] for char in piece) for piece, token in pieces.items()}


def _bytes_of_chars() -> dict[str, int]:
    """Byte-level BPE writes a byte as its Latin-1 character where that is visible, and the others from U+0100 on."""
    visible = [byte for byte in range(256) if chr(byte).isprintable() and not chr(byte).isspace()]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + at): byte for at, byte in enumerate(hidden)}
