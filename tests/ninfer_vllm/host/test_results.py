"""Records survive the host's merging of results."""

from __future__ import annotations

from typing import Any

import pytest
from ninfer_patches.outputs import add_result, with_record_members
from vllm.outputs import CompletionOutput, RequestOutput

from ninfer_vllm.errors import ConstraintDeadEnd
from ninfer_vllm.record import ConstraintRecord

with_record_members(CompletionOutput)


def result(text: str, reason: str | None = None) -> Any:
    output = CompletionOutput(0, text, [1], None, None, finish_reason=reason)
    return RequestOutput("r", None, None, None, [output], reason is not None)


@pytest.mark.contract("OBS-2", "ERR-5")
@pytest.mark.parametrize("aggregate", [True, False])
def test_record_and_error_of_an_ended_sample_survive_a_merge(aggregate: bool) -> None:
    waiting, last = result("a"), result("b", "error")
    last.outputs[0].constraint = record = ConstraintRecord("regex", "native")
    last.outputs[0].constraint_error = error = ConstraintDeadEnd(2)
    add_result(RequestOutput.add)(waiting, last, aggregate=aggregate)
    (merged,) = waiting.outputs
    assert (merged.constraint, merged.constraint_error, merged.finish_reason) == (record, error, "error")
    assert merged.text == ("ab" if aggregate else "b")
