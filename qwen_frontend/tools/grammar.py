"""The grammar of an output that may, must or must not call tools (TOOL-5, TOOL-12)."""

from __future__ import annotations

from ninfer_vllm.automata.charset import ANY
from ninfer_vllm.automata.work import budget
from ninfer_vllm.grammar.ir import (
    Chars,
    Expr,
    Grammar,
    Repeat,
    Rule,
    Token,
    alternation,
    optional,
    sequence,
    text,
)
from ninfer_vllm.grammar.naming import prefixed, with_shared_texts
from ninfer_vllm.limits import PREPARATION_STEPS
from qwen_frontend.tools import hermes, xml
from qwen_frontend.tools.contract import ToolContract

BETWEEN_CALLS = "\n"
CALL_TEXTS = {"xml": xml.call_text, "hermes": hermes.call_text}
CONTENT = Repeat(Chars(ANY), 0, None)
"""Any text: one state, whose mask is computed once."""


def lower_tools(contract: ToolContract, body: Grammar | None, open_id: int, close_id: int) -> Grammar:
    """The grammar of everything behind the thinking block.

    `body` is what the content must be where it is constrained itself; a call stands between the control tokens
    `open_id` and `close_id`.

    Errors: ConstraintError, with the place in the list of tools.
    """
    rules: dict[str, Expr] = {}
    content: Expr = CONTENT
    if body is not None:
        inner = prefixed(body, "body_")
        rules.update(inner.rules)
        content = Rule(inner.root)
    if not contract.callable:
        return Grammar({"output": content, **rules}, "output")
    with budget(PREPARATION_STEPS):
        for at, tool in enumerate(contract.callable):
            grammar = prefixed(CALL_TEXTS[contract.dialect](tool), f"tool{at}_")
            rules.update(grammar.rules)
            rules[f"call{at}"] = Rule(grammar.root)
    texts = alternation(*(Rule(f"call{at}") for at in range(len(contract.callable))))
    rules["call"] = sequence(Token(frozenset((open_id,))), texts, Token(frozenset((close_id,))))
    output = _output(contract, content, has_body=body is not None)
    return Grammar(with_shared_texts({"output": output, **rules}, "text"), "output")


def _output(contract: ToolContract, content: Expr, *, has_body: bool) -> Expr:
    call = Rule("call")
    more = sequence(text(BETWEEN_CALLS), call)
    calls = sequence(call, Repeat(more, 0, None)) if contract.policy.parallel else call
    if contract.policy.mode == "required":
        return calls
    return alternation(content, calls) if has_body else sequence(content, optional(calls))
