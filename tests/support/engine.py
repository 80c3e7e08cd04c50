"""A real vLLM engine in a process of its own, asked over a pipe; functions sent to it look inside.

Theory of operation: an engine leaves traces in its process (thread binding, distributed state, patched classes), so
tests that start many of them one after another give each its own process. The test process imports neither vLLM nor
torch. A function is sent by name, so it must stand at the top of a module; it runs beside the engine with the `LLM` as
its first argument, and what it returns or raises comes back.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.errors import NInferError
from ninfer_vllm.record import ConstraintRecord

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROCESSING_METHOD": "spawn",
}
IN_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
"""The engine core in the process of the `LLM`, where a function can see it."""

SELECTED = {"additional_config": {"ninfer": {}}}
END_S = 60
"""Seconds an engine's process has to end by itself."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: a prompt (text, token ids or chat messages), its constraint and its sampling parameters."""

    prompt: Any
    constraint: OutputConstraint | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion output, in plain values."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None
    stop_reason: int | str | None
    constraint: ConstraintRecord | None
    error: NInferError | None
    logprobs: tuple[dict[int, float], ...] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request."""

    samples: tuple[Sample, ...]
    prompt_token_ids: tuple[int, ...]
    num_cached_tokens: int | None

    @property
    def only(self) -> Sample:
        """The sample of a request that asked for one."""
        (sample,) = self.samples
        return sample


class Engine:
    """A running engine; a context manager that ends it."""

    def __init__(
        self,
        model: object,
        environment: Mapping[str, str] | None = None,
        *,
        prepared_by: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        """Start an engine on a model folder; `options` are those of `vllm.LLM`; `prepared_by` runs in its process."""
        # Each process is forked from one that has imported the host and nothing else: importing takes longer than
        # starting an engine on a small model.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["vllm.entrypoints.llm"])
        self._pipe, theirs = context.Pipe()
        variables = {**ENVIRONMENT, **(environment or {})}
        defaults = {"enforce_eager": True, "max_model_len": 1024, "max_num_seqs": 16, "disable_log_stats": True}
        arguments = (theirs, str(model), variables, prepared_by, {**defaults, **options})
        # Not a daemon: the engine may have processes of its own.
        self._process = context.Process(target=_serve, args=arguments, daemon=False)
        self._process.start()
        theirs.close()
        self._answer()

    def generate(self, asks: Sequence[Ask]) -> list[Answer]:
        """`LLM.generate` over all requests at once."""
        return self.call(generate, list(asks))

    def chat(self, asks: Sequence[Ask], **options: Any) -> list[Answer]:
        """`LLM.chat` over all requests at once."""
        return self.call(chat, list(asks), options)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run `function(llm, *arguments)` beside the engine."""
        self._pipe.send((function, arguments))
        return self._answer()

    def close(self) -> None:
        """End the engine and its process."""
        self._pipe.close()
        self._process.join(END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _answer(self) -> Any:
        try:
            fault, value = self._pipe.recv()
        except EOFError:
            self._process.join(END_S)
            raise RuntimeError(f"the engine's process died with status {self._process.exitcode}") from None
        if fault is None:
            return value
        fault.add_note(value)
        raise fault


def generate(llm: Any, asks: Sequence[Ask]) -> list[Answer]:
    """Runs beside the engine: `LLM.generate`."""
    results = llm.generate([prompt_of(ask) for ask in asks], [params_of(ask) for ask in asks], use_tqdm=False)
    return [answer_of(result) for result in results]


def chat(llm: Any, asks: Sequence[Ask], options: Mapping[str, Any]) -> list[Answer]:
    """Runs beside the engine: `LLM.chat`."""
    results = llm.chat([ask.prompt for ask in asks], [params_of(ask) for ask in asks], use_tqdm=False, **options)
    return [answer_of(result) for result in results]


def prompt_of(ask: Ask) -> Any:
    """A prompt as the host takes it."""
    return ask.prompt if isinstance(ask.prompt, str) else {"prompt_token_ids": list(ask.prompt)}


def params_of(ask: Ask) -> Any:
    """The host's sampling parameters."""
    from vllm import SamplingParams

    return SamplingParams(structured_outputs=ask.constraint, **ask.sampling)


def answer_of(result: Any) -> Answer:
    """The host's request output in plain values."""
    samples = tuple(_sample_of(output) for output in result.outputs)
    return Answer(samples, tuple(result.prompt_token_ids or ()), result.num_cached_tokens)


def _sample_of(output: Any) -> Sample:
    scores = output.logprobs
    return Sample(
        output.text,
        tuple(output.token_ids),
        output.finish_reason,
        output.stop_reason,
        # An engine that never loaded the plugin has no such members.
        getattr(output, "constraint", None),
        getattr(output, "constraint_error", None),
        None if scores is None else tuple({token: one.logprob for token, one in step.items()} for step in scores),
    )


def _serve(
    pipe: Connection,
    model: str,
    variables: Mapping[str, str],
    prepare: Callable[[], None] | None,
    options: Mapping[str, Any],
) -> None:
    # The host reads most of them when an engine starts.
    os.environ.update(variables)
    from vllm import LLM

    if prepare is not None:
        prepare()

    fault, llm = _outcome(partial(LLM, model, **options))
    pipe.send((fault, None if fault is None else llm))
    while fault is None:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(_outcome(partial(function, llm, *arguments)))


def _outcome(action: Callable[[], Any]) -> tuple[Exception | None, Any]:
    """No fault and the action's value, or the fault and where it came from."""
    try:
        return None, action()
    except Exception as fault:  # noqa: BLE001
        return fault, traceback.format_exc()
