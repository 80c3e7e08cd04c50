"""`AsyncLLM` used directly: streams, refusals before queueing, failed rows as outputs, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.embedded import build
from ninfer_vllm.errors import ConstraintDeadEnd, ConstraintError, InvalidRegex

pytestmark = [pytest.mark.engine]


async def collect(results: AsyncIterator) -> list:
    return [result.outputs[0] async for result in results]


def params(constraint: OutputConstraint, **fields) -> SamplingParams:
    return SamplingParams(
        structured_outputs=constraint, max_tokens=40, temperature=1.0, output_kind=RequestOutputKind.DELTA, **fields
    )


async def scene(engine: AsyncLLM) -> None:
    word = OutputConstraint.regex("[a-z]{3,9}!")
    outputs = await asyncio.gather(
        *(collect(engine.generate(f"say {n}", params(word, seed=n), f"word-{n}")) for n in range(6))
    )
    for deltas in outputs:
        text = "".join(delta.text for delta in deltas)
        assert 4 <= len(text) <= 10
        assert text.endswith("!")
        assert deltas[-1].constraint.terminated
        assert all(delta.constraint is None for delta in deltas[:-1])

    with pytest.raises(InvalidRegex) as refusal:
        await collect(engine.generate("x", params(OutputConstraint.regex("a(?=b)")), "refused"))
    assert isinstance(refusal.value, ConstraintError)
    assert not engine.output_processor.has_unfinished_requests()

    (failed,) = await collect(engine.generate("x", params(word, allowed_token_ids=[5]), "failing"))
    assert (failed.finish_reason, failed.stop_reason, failed.text) == ("error", "constraint_dead_end", "")
    assert failed.constraint_error == ConstraintDeadEnd(0)
    assert failed.constraint.error["code"] == "constraint_dead_end"

    stream = engine.generate("x", params(OutputConstraint.regex("a{200}")), "abandoned")
    await anext(stream)
    await stream.aclose()
    assert (await collect(engine.generate("x", params(OutputConstraint.choice(["last"])), "last")))[
        -1
    ].constraint.complete


@pytest.mark.contract("API-2", "ERR-2", "ERR-4", "ERR-5", "ERR-6", "ENG-4")
def test_async_engine_keeps_constraints_refuses_and_fails_rows_alone() -> None:
    async def run() -> None:
        engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                model=str(build("tiny-qwen3")), enforce_eager=True, max_model_len=512, max_num_seqs=8,
                additional_config={"ninfer": {}}, disable_log_stats=True,
            )
        )  # fmt: skip
        try:
            await scene(engine)
        finally:
            engine.shutdown()

    asyncio.run(run())
