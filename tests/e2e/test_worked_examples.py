"""The contract's worked examples 1 and 2 on the real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ninfer_vllm.constraint import OutputConstraint
from tests.support.engine import IN_PROCESS, SELECTED, Answer, Ask, Engine, generate
from tests.support.inspection import manager_of, spelling_table

pytestmark = pytest.mark.engine

STATUS = 'root ::= "status=" ("ok" | "error") "\\n"\n'
MEMBERS = (b"status=ok\n", b"status=error\n")
OBJECT = OutputConstraint.json_schema(
    {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
)
ENUM = OutputConstraint.json_schema({"enum": ["red", "green", 7]})
SHARED_PROMPT = "The same words again and again, so that whole blocks of the cache hold them. " * 12


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Iterator[Engine]:
    with Engine(tiny, IN_PROCESS, enable_prefix_caching=True, block_size=32, **SELECTED) as running:
        yield running


@pytest.mark.contract("WEX-1", "GEN-1", "GBNF-1", "REQ-3", "TOK-2", "TOK-3")
def test_grammar_from_a_file_masks_by_whole_token_bytes(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "status.gbnf"
    file.write_text(STATUS, encoding="utf-8")
    ask = Ask("Report:", OutputConstraint.grammar(file.read_text(encoding="utf-8")), {"temperature": 1.0, "seed": 3})
    answers, masks = engine.call(generate_with_masks, [ask])
    sample = answers[0].only
    assert sample.text.encode() in MEMBERS
    assert sample.text.endswith("\n"), "the final newline is published"
    assert sample.finish_reason == "stop"

    spelled: dict[int, bytes] = engine.call(spelling_table)
    ends = engine.call(end_ids)
    written = b""
    assert len(masks[0]) == len(sample.token_ids)
    for token, legal in zip(sample.token_ids, masks[0], strict=True):
        rest = {member[len(written) :] for member in MEMBERS if member.startswith(written)}
        expected = {key for key, data in spelled.items() if data and any(text.startswith(data) for text in rest)}
        assert legal == (expected | ends if b"" in rest else expected)
        assert token in legal
        written += spelled.get(token, b"")
    assert written in MEMBERS


@pytest.mark.contract("WEX-2", "SMP-6", "CON-5", "GEN-8")
def test_constraints_on_one_cached_prompt_get_their_own_first_masks(engine: Engine) -> None:
    greedy = {"temperature": 0.0, "max_tokens": 24}
    engine.generate([Ask(SHARED_PROMPT, None, {"max_tokens": 1})])
    asks = [Ask(SHARED_PROMPT, constraint, greedy) for constraint in (OBJECT, ENUM)]
    answers, masks = engine.call(generate_with_masks, asks)
    assert all(answer.num_cached_tokens for answer in answers), "both prompts were found in the prefix cache"
    assert answers[0].prompt_token_ids == answers[1].prompt_token_ids
    assert json.loads(answers[0].only.text) in ({"ok": True}, {"ok": False})
    assert json.loads(answers[1].only.text) in ("red", "green", 7)

    spelled: dict[int, bytes] = engine.call(spelling_table)
    firsts = [
        {key for key, data in spelled.items() if data and any(text.startswith(data) for text in texts)}
        for texts in ((b'{"ok":true}', b'{"ok":false}'), (b'"red"', b'"green"', b"7"))
    ]
    assert [rows[0] for rows in masks] == firsts
    assert not firsts[0] & firsts[1]


@pytest.mark.contract("SMP-6", "CMP-1")
def test_equal_requests_behind_a_cached_prompt_do_not_share_their_state(engine: Engine) -> None:
    asks = [Ask(SHARED_PROMPT, ENUM, {"temperature": 1.0, "seed": seed}) for seed in range(8)]
    texts = [answer.only.text for answer in engine.generate(asks)]
    assert set(texts) <= {'"red"', '"green"', "7"}
    assert len(set(texts)) > 1


def generate_with_masks(llm: Any, asks: list[Ask]) -> tuple[list[Answer], list[list[set[int]]]]:
    """Runs beside the engine: the answers, and for each request the legal ids of every mask that was shipped."""
    from ninfer_vllm.masks.bits import as_bools

    manager = manager_of(llm)
    masks, size = manager.grammar_bitmask, llm.llm_engine.vllm_config.model_config.get_vocab_size()
    rows: dict[int, list[set[int]]] = {}

    def noted(requests: Any, request_ids: list[str], drafts: Any) -> Any:
        buffer = masks(requests, request_ids, drafts)
        for request_id, row in zip(request_ids, buffer, strict=True):
            # The host numbers the requests of its life and adds something random.
            number = int(request_id.split("-")[0])
            rows.setdefault(number, []).append(set(as_bools(row, size).nonzero()[0].tolist()))
        return buffer

    manager.grammar_bitmask = noted
    try:
        return generate(llm, asks), [rows[number] for number in sorted(rows)]
    finally:
        del manager.grammar_bitmask


def end_ids(llm: Any) -> set[int]:
    """Runs beside the engine: the model's end tokens, from its own files."""
    config = llm.llm_engine.vllm_config.model_config.try_get_generation_config()
    return set(config["eos_token_id"])
