"""The thinking cases that users reported elsewhere, as this contract decides them: a close has its line breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ninfer_vllm.constraint import Frame, OutputConstraint
from ninfer_vllm.testing import Probe
from tests.support.cases import misjudged, open_cases

CLOSE, CANONICAL = "</think>", "\n</think>\n\n"
CALLS = "th-011"
"""A case of calls, whose reading is tested beside the parser of outputs."""

END_OF_TURN = "<|im_end|>"


@pytest.fixture(scope="module")
def probe() -> Iterator[Probe]:
    probe = Probe("embedded")
    yield probe
    probe.close()


@pytest.mark.contract("THK-1", "THK-2", "THK-3")
@pytest.mark.parametrize("case", [case for case in open_cases("thinking") if case.id != CALLS])
def test_reported_outputs_are_decided_right(probe: Probe, case: dict[str, Any]) -> None:
    constraint = OutputConstraint.json_schema(case["constraint"]["response_format"])
    frame: Frame = "thinking" if case["constraint"].get("enable_thinking") else "content"

    def accepts(text: str) -> bool:
        return probe.accepts(constraint, text.removesuffix(END_OF_TURN).replace(CLOSE, CANONICAL), frame=frame)

    assert misjudged(case, accepts) == []
    bare = [text for text in case["accept"] if CLOSE in text]
    assert not any(probe.accepts(constraint, text.removesuffix(END_OF_TURN), frame=frame) for text in bare)
    end = probe.vocabulary.names[END_OF_TURN]
    for text in case["reject"]:
        if text.endswith(END_OF_TURN):
            assert not probe.mask(constraint, text.removesuffix(END_OF_TURN), frame=frame)[end]
