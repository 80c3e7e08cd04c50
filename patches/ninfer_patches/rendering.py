"""Chat prompts of the HTTP protocols, and the parser that reads what follows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

from ninfer_vllm.errors import ConstraintError
from ninfer_vllm.host.host_parsers import NAME
from ninfer_vllm.host.http import find_existing
from ninfer_vllm.host.prepared import REQUESTS
from ninfer_vllm.host.publication import compose
from ninfer_vllm.host.turns import (
    ChatTurn,
    Continued,
    continued_in,
    final_content,
    keep_content,
    mark,
    with_sentinel,
)  # fmt: skip

ASIDE = {"parser": None, "skip_mm_cache": True}
"""Options of a rendering that is only looked at."""


def preprocess_chat(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note on the rendered prompt that it is a chat turn, and check the message that a constrained one continues."""

    @wraps(original)
    async def preprocess(self: Any, request: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        prepared = REQUESTS.of(request)
        continues = prepared is not None and prepared.enforced and _continues(request)
        if continues:
            keep_content(messages)
        conversation, rendered = await original(self, request, messages, *args, **kwargs)
        turn = ChatTurn()
        if prepared is not None and continues:
            probe = partial(original, self, request, with_sentinel(messages), *args, **{**kwargs, **ASIDE})
            found = await _find(messages, rendered, probe)
            await find_existing(request, prepared, found)
            turn = ChatTurn(found)
        for prompt in rendered:
            mark(prompt, turn)
        return conversation, rendered

    return preprocess


def compose_parser(original: Callable[..., Any]) -> Callable[..., Any]:
    """Our own parser where its name is asked for."""

    @wraps(original)
    def choose(cls: Any, *args: Any, **kwargs: Any) -> Any:
        names = kwargs.get("tool_parser_name"), kwargs.get("reasoning_parser_name")
        if NAME in names:
            return compose(*names, kwargs.get("tokenizer"))
        return original(cls, *args, **kwargs)

    return choose


def with_own_parser(original: Any) -> Any:
    """The same registry, knowing our parser of its kind."""
    kind = "NinferToolParser" if original.__name__ == "ToolParserManager" else "NinferReasoningParser"
    original.register_lazy_module(NAME, "ninfer_vllm.host.host_parsers", kind)
    return original


def _continues(request: Any) -> bool:
    """Whether the turn continues its final message, as the host's own rendering decides it."""
    return bool(request.build_chat_params(None, "auto").chat_template_kwargs.get("continue_final_message"))


async def _find(messages: Any, rendered: Any, probe: Callable[[], Awaitable[Any]]) -> Callable[[], Continued]:
    """What finds the continued message; the template is asked here, a refusal comes where it is called."""
    try:
        content = final_content(messages)
        _, probed = await probe()
    except ConstraintError as refusal:
        return partial(_refuse, refusal)
    return lambda: continued_in(content, rendered[0].get("prompt"), probed[0].get("prompt"))


def _refuse(refusal: ConstraintError) -> Continued:
    raise refusal
