"""One offline generation: an engine from command-line words, a prompt, and what came out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm import LLM, EngineArgs, SamplingParams
from vllm.plugins import load_general_plugins
from vllm.utils.argparse_utils import FlexibleArgumentParser

from ninfer_vllm.constraint import Constraint, ToolConstraint
from ninfer_vllm.errors import NInferError
from ninfer_vllm.host.chat_reading import ChatMessage, read_chat
from ninfer_vllm.record import ConstraintRecord

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A raw prompt, or the messages of a chat."""

    text: str = ""
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """What came of one sample."""

    text: str
    finish_reason: str | None
    constraint: ConstraintRecord | None
    constraint_error: NInferError | None
    message: ChatMessage | None
    """Reasoning, content and calls, where tools were given."""


def start_engine(model: str, words: Sequence[str]) -> LLM:
    """An engine with the plugin selected, from options as `vllm serve` takes them.

    Errors: HostError; ValueError or OSError where the host refuses the model or an option.
    """
    load_general_plugins()
    parser = EngineArgs.add_cli_args(
        FlexibleArgumentParser(prog="ninfer generate MODEL … --", usage="%(prog)s [options]")
    )
    args = parser.parse_args(["--model", model, *words, "--plugin", "ninfer"])
    return LLM.from_engine_args(EngineArgs.from_cli_args(args))


def generate(engine: LLM, prompt: Prompt, constraint: Constraint | None, sampling: Mapping[str, Any]) -> list[Sample]:
    """The samples of one request; `sampling` holds sampling parameters that differ from the model's defaults.

    Errors: ConstraintError; UnreadableToolCall; ValueError where the host refuses a parameter.
    """
    stated = {**engine.model_config.get_diff_sampling_param(), **sampling}
    params: Any = SamplingParams.from_optional(**stated)
    params.structured_outputs = constraint
    if not prompt.messages:
        (result,) = engine.generate(prompt.text, params, use_tqdm=False)
        return _samples(result, None)
    tools = constraint if isinstance(constraint, ToolConstraint) else None
    declared = None if tools is None else json.loads(tools.declarations)
    conversation: Any = [dict(message) for message in prompt.messages]
    (result,) = engine.chat(conversation, params, tools=declared, use_tqdm=False)
    return _samples(result, None if tools is None else read_chat(engine, result, tools))


def _samples(result: RequestOutput, messages: list[ChatMessage] | None) -> list[Sample]:
    outputs: list[Any] = list(result.outputs)
    return [
        Sample(
            output.text, output.finish_reason, output.constraint, output.constraint_error,
            None if messages is None else messages[at],
        )
        for at, output in enumerate(outputs)
    ]  # fmt: skip


def stop_engine(engine: LLM) -> None:
    """End the engine's processes now, in order, instead of when the interpreter ends."""
    engine.llm_engine.engine_core.shutdown()
