"""Texts with calls: markers are control tokens where these are legal, data where they are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ninfer_vllm.constraint import OutputConstraint, ToolConstraint
from ninfer_vllm.errors import InvalidContinuation
from ninfer_vllm.testing import Probe
from tests.support.calls import tool

TOOLS = [tool("f", {"a": {"type": "string"}})]
HEAD = "<tool_call>\n<function=f>\n<parameter=a>\n"
TAIL = "\n</parameter>\n</function>\n</tool_call>"


@pytest.fixture(scope="module")
def probe() -> Iterator[Probe]:
    probe = Probe("embedded")
    yield probe
    probe.close()


@pytest.mark.contract("API-9")
def test_every_beginning_of_a_call_is_a_prefix(probe: Probe) -> None:
    required = ToolConstraint(TOOLS, "required")
    text = f"{HEAD}x</tool_call>\n<tool_call>{TAIL}"
    assert probe.accepts(required, text)
    assert [end for end in range(len(text) + 1) if not probe.is_prefix(required, text[:end])] == []
    assert not any(probe.accepts(required, text[:end]) for end in range(len(text)))
    assert not probe.is_prefix(required, f"{text[:20]}x")


@pytest.mark.contract("API-9", "TOK-4")
def test_prefix_that_ends_inside_a_marker_has_no_mask(probe: Probe) -> None:
    with pytest.raises(InvalidContinuation):
        probe.mask(ToolConstraint(TOOLS, "required"), "<tool_")


@pytest.mark.contract("API-9", "TOK-4")
def test_marker_in_a_json_body_is_data(probe: Probe) -> None:
    body = ToolConstraint(TOOLS, "auto", OutputConstraint.json_object())
    assert probe.accepts(body, '{"a":"<tool_call></tool_call>"}')
    assert probe.is_prefix(body, '{"a":"<tool_call')
    assert not probe.is_prefix(body, '{"a":<tool_call>')


@pytest.mark.contract("API-9")
def test_samples_and_walks_take_tools(probe: Probe) -> None:
    constraint = ToolConstraint(TOOLS, "required")
    for seed in range(20):
        assert probe.accepts(constraint, probe.sample(constraint, seed))
    opening, closing = (probe.vocabulary.names[name] for name in ("<tool_call>", "</tool_call>"))
    inner = probe.tokenizer.encode(f"{HEAD}x{TAIL}"[len("<tool_call>") : -len("</tool_call>")])
    timings = probe.walk(constraint, [opening, *inner, closing])
    assert len(timings.mask_ns) == len(inner) + 2
