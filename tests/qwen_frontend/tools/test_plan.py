"""Tools through the cache of lowered grammars: one key for one language, nothing where nothing is enforced."""

from __future__ import annotations

from typing import Any

import pytest

from ninfer_vllm.compiler.lowering import Lowered, LoweringCache
from ninfer_vllm.constraint import OutputConstraint, ToolChoice, ToolConstraint
from ninfer_vllm.errors import ConflictingConstraint, UnsupportedSchema
from qwen_frontend.tools.contract import ToolContract, contract_of
from qwen_frontend.tools.plan import QwenToolPlan
from tests.support.calls import CLOSE, OPEN, call_vocabulary, tool

FREE = tool("f", {"a": {"type": "integer"}}, strict=False)
BODY = OutputConstraint.json_object()


def plan(constraint: ToolConstraint) -> QwenToolPlan:
    return QwenToolPlan(ToolContract.of(constraint, "xml"), OPEN, CLOSE)


@pytest.fixture
def cache() -> LoweringCache:
    return LoweringCache(call_vocabulary, plan)


def lowered(cache: LoweringCache, *arguments: Any) -> Lowered:
    found = cache.lower(ToolConstraint(*arguments))
    assert found is not None
    return found


@pytest.mark.contract("TOOL-13", "CMP-2")
def test_hints_are_no_part_of_the_key(cache: LoweringCache) -> None:
    other = tool("f", {"b": {"type": "string"}}, strict=False)
    assert lowered(cache, [FREE]) is lowered(cache, [other])
    assert lowered(cache, [FREE]).key != lowered(cache, [FREE], "required").key
    assert lowered(cache, [FREE]).key != lowered(cache, [FREE], "auto", None, "hermes").key
    assert lowered(cache, [FREE]).key != lowered(cache, [FREE], "auto", BODY).key


@pytest.mark.contract("TOOL-12")
def test_body_is_all_there_is_where_no_tool_may_be_called(cache: LoweringCache) -> None:
    assert lowered(cache, [FREE], "none", BODY) is cache.lower(BODY)
    assert lowered(cache, [], "auto", BODY) is cache.lower(BODY)


@pytest.mark.contract("TOOL-2", "TOOL-12")
def test_token_that_begins_a_call_is_named_where_there_may_be_one(cache: LoweringCache) -> None:
    assert (lowered(cache, [FREE]).kind, lowered(cache, [FREE]).tool_id) == ("tools", OPEN)
    assert lowered(cache, [FREE], "none").tool_id is None
    assert cache.lower(ToolConstraint([FREE], ToolChoice(enforcement="automatic"))) is None
    assert cache.lower(ToolConstraint([])) is None


def test_refusal_is_remembered(cache: LoweringCache) -> None:
    union = ToolConstraint([tool("f", {"a": {"type": ["string", "null"]}})])
    found = []
    for _ in range(2):
        with pytest.raises(UnsupportedSchema) as caught:
            cache.lower(union)
        found.append(caught.value)
    assert found[0] is found[1]


@pytest.mark.contract("TOOL-13")
def test_grammar_and_parser_read_one_object() -> None:
    one, other = (contract_of(ToolConstraint([FREE], "required"), "xml") for _ in range(2))
    assert one is other


@pytest.mark.contract("FAM-1")
def test_without_a_family_tools_are_refused() -> None:
    with pytest.raises(ConflictingConstraint, match="no frontend"):
        LoweringCache(call_vocabulary).lower(ToolConstraint([FREE]))
