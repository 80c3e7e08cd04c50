"""One offline generation: an engine from command-line words, a prompt, and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm import LLM, EngineArgs, SamplingParams
from vllm.plugins import load_general_plugins
from vllm.utils.argparse_utils import FlexibleArgumentParser

from ninfer_vllm.constraint import OutputConstraint

if TYPE_CHECKING:
    from vllm.outputs import CompletionOutput

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A raw prompt, or the messages of a chat."""

    text: str = ""
    messages: tuple[Message, ...] = ()


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


def generate(
    engine: LLM, prompt: Prompt, constraint: OutputConstraint | None, sampling: Mapping[str, Any]
) -> list[CompletionOutput]:
    """The samples of one request; `sampling` holds sampling parameters that differ from the model's defaults.

    Errors: ConstraintError; ValueError where the host refuses a parameter.
    """
    stated = {**engine.model_config.get_diff_sampling_param(), **sampling}
    params: Any = SamplingParams.from_optional(**stated)
    params.structured_outputs = constraint
    if prompt.messages:
        conversation: Any = [dict(message) for message in prompt.messages]
        (result,) = engine.chat(conversation, params, use_tqdm=False)
    else:
        (result,) = engine.generate(prompt.text, params, use_tqdm=False)
    return list(result.outputs)


def stop_engine(engine: LLM) -> None:
    """End the engine's processes now, in order, instead of when the interpreter ends."""
    engine.llm_engine.engine_core.shutdown()
