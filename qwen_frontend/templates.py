"""What a chat template does, found by rendering small conversations and reading the text that comes out.

Theory of operation: nothing in a template file says which tool dialect a model was taught or whether its thinking block
is opened by the prompt or by the model, and template sources differ too much to be read. Their output does not: a call
with a known name and value is rendered and compared with each dialect's own spelling, and the generation prompt is
rendered with thinking on and off. What matches nothing is kept as it was found, for the message that refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ninfer_vllm.errors import UnsupportedTemplate

Dialect = Literal["xml", "hermes"]

OPEN, CLOSE = "<think>", "</think>"
TURN = "<|im_start|>"
CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"

USER = {"role": "user", "content": "probe"}
NAME, KEY, VALUE = "probe_name", "probe_key", "probe value"
TOOL = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "probe",
        "parameters": {"type": "object", "properties": {KEY: {"type": "string"}}, "required": [KEY]},
    },
}
ARGUMENTS: tuple[Any, ...] = ({KEY: VALUE}, f'{{"{KEY}": "{VALUE}"}}')
"""The arguments of the probed call as templates take them: an object, or its JSON text."""

SPELLINGS: dict[str, Dialect] = {
    f"\n<function={NAME}>\n<parameter={KEY}>\n{VALUE}\n</parameter>\n</function>\n": "xml",
    f'\n{{"name": "{NAME}", "arguments": {{"{KEY}": "{VALUE}"}}}}\n': "hermes",
}
SHOWN = 120
"""Characters of a rendering that a message shows."""

Render = Callable[..., str]


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What was found out about one chat template."""

    thinks: bool
    """Whether a generation prompt opens or closes a thinking block."""
    model_opens: bool
    """Whether the opening of a thinking block is left to the model (the hybrid models of Qwen3)."""
    dialect: Dialect | None
    tool_finding: str
    """How the template writes a call, in words; what a refusal shows where `dialect` is None."""
    thinking_finding: str | None
    """What a generation prompt ends with, where its thinking block is not written as this family writes it."""


def facts_of(tokenizer: Any) -> TemplateFacts:
    """The facts of a Hugging Face tokenizer's own chat template.

    Errors: UnsupportedTemplate where it does not render a plain conversation.
    """

    # Said anew, since a pool of tokenizers renders with those inside it, whatever is said of the pool.
    own = tokenizer.chat_template
    given = {"chat_template": own} if isinstance(own, str) else {}

    def render(messages: list[dict[str, Any]], **options: Any) -> str:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, **given, **options))

    prompts = _generation_prompts(render)
    opening, silent = prompts
    dialect, finding = _dialect(render)
    return TemplateFacts(
        thinks=any(OPEN in prompt for prompt in prompts),
        model_opens=OPEN not in opening and CLOSE in silent,
        dialect=dialect,
        tool_finding=finding,
        thinking_finding=next(filter(None, map(_unknown_thinking, prompts)), None),
    )


def _generation_prompts(render: Render) -> tuple[str, str]:
    """What starts an assistant's turn, with thinking on and off."""
    try:
        on, off = (render([USER], add_generation_prompt=True, enable_thinking=enabled) for enabled in (True, False))
    except Exception as error:  # noqa: BLE001 - a template raises whatever its author chose
        raise UnsupportedTemplate("a turn", f"an error: {error}") from None
    return on[on.rfind(TURN) + 1 :], off[off.rfind(TURN) + 1 :]


def _unknown_thinking(prompt: str) -> str | None:
    """The end of a generation prompt that opens or closes a block in another way than with its own line breaks."""
    opened = OPEN not in prompt or prompt.endswith(f"{OPEN}\n")
    known = prompt.endswith(f"{CLOSE}\n\n") if CLOSE in prompt else opened
    return None if known else f"a generation prompt that ends in {prompt[-SHOWN:]!r}"


def _dialect(render: Render) -> tuple[Dialect | None, str]:
    """The dialect whose spelling the template writes, and what it writes."""
    finding = "no call at all"
    for text in _rendered_calls(render):
        _, opened, rest = text.partition(CALL_OPEN)
        inner, closed, _ = rest.partition(CALL_CLOSE)
        if opened and closed and inner in SPELLINGS:
            return SPELLINGS[inner], f"the {SPELLINGS[inner]} dialect"
        if opened:
            finding = repr(f"{opened}{inner[:SHOWN]}{closed}")
        elif NAME in text:
            at = text.index(NAME)
            finding = repr(text[max(0, at - SHOWN // 2) : at + SHOWN // 2])
    return None, finding


def _rendered_calls(render: Render) -> Iterator[str]:
    """The assistant's turn with one call, for each way of passing arguments that the template takes."""
    for arguments in ARGUMENTS:
        call = {"type": "function", "id": "call_0", "function": {"name": NAME, "arguments": arguments}}
        turn = {"role": "assistant", "content": "", "tool_calls": [call]}
        try:
            text = render([USER, turn], tools=[TOOL])
        except Exception:  # noqa: BLE001 - a template refuses what it does not take with errors of every kind
            continue
        yield text[text.rfind(TURN) + 1 :]
