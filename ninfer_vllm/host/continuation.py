"""Existing content of a continued turn: what of it a matcher is taken over, and whether it can be (CON)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from ninfer_vllm.compiler.compiler import Compiler
from ninfer_vllm.compiler.lowering import Lowered
from ninfer_vllm.constraint import Constraint, ToolConstraint
from ninfer_vllm.engines.protocol import EngineName
from ninfer_vllm.engines.selection import engine_for
from ninfer_vllm.errors import ConflictingConstraint
from ninfer_vllm.host.frontend import Frontend
from ninfer_vllm.host.turns import FIELD, Continued
from ninfer_vllm.session.existing import Existing, continue_from
from ninfer_vllm.vocabulary import Vocabulary

Encode = Callable[[str], Sequence[int]]
Spell = Callable[[int], str]


def existing_of(
    constraint: Constraint, continued: Continued, frontend: Frontend, encode: Encode, spell: Spell
) -> Existing:
    """The continued message's content, as text and control tokens.

    `encode` gives the token ids of a prompt, `spell` the visible text of a control token.

    Errors: ConflictingConstraint where thinking is not closed before the content, or where the content holds a finished
    call.
    """
    content = continued.content
    if frontend.thinking_ids is not None:
        open_thinking = frontend.start_frame(encode(continued.head)) == "thinking"
        if open_thinking or any(spell(token) in content for token in frontend.thinking_ids):
            raise ConflictingConstraint(FIELD, "only content behind a closed thinking block can be continued")
    if not isinstance(constraint, ToolConstraint) or constraint.policy.mode == "none" or frontend.tool_ids is None:
        return (_bytes(content),)
    return _with_calls(content, frontend.tool_ids, spell, has_body=constraint.body is not None)


def _with_calls(content: str, tool_ids: tuple[int, int], spell: Spell, *, has_body: bool) -> Existing:
    """Content in which the opening marker begins a call; in a JSON body it is text like any other (TOOL-12)."""
    opening, closing = map(spell, tool_ids)
    if has_body and not content.startswith(opening):
        return (_bytes(content),)
    before, *calls = content.split(opening)
    if len(calls) > 1 or closing in content:
        raise ConflictingConstraint(FIELD, "a message with finished calls cannot be continued")
    parts: list[bytes | int] = [_bytes(before)] if before else []
    for call in calls:
        parts += [tool_ids[0], _bytes(call)] if call else [tool_ids[0]]
    return tuple(parts)


def _bytes(text: str) -> bytes:
    # An unpaired surrogate becomes bytes that are no UTF-8, and so are in no language.
    return text.encode(errors="surrogatepass")


class ContinuationCheck:
    """Finds out, before a request is queued, whether existing content is a prefix of its language."""

    def __init__(self, engine: EngineName, vocabulary: Callable[[], Vocabulary], timeout_s: float) -> None:
        self._engine = engine
        self._vocabulary = vocabulary
        self._timeout_s = timeout_s

    def require_prefix(self, lowered: Lowered, existing: Existing) -> None:
        """Take a matcher over the content.

        Errors: InvalidContinuation with the offset of the first wrong byte; ConstraintError where the grammar does not
        compile.
        """
        compiled = self._compiler.submit(lowered.key, lowered.grammar, "content").result()
        continue_from(compiled.grammar.matcher(), existing)

    @cached_property
    def _compiler(self) -> Compiler:
        vocabulary = self._vocabulary()
        return Compiler(engine_for(self._engine, vocabulary, timeout_s=self._timeout_s), len(vocabulary))
