"""The texts of `pattern` and `patternProperties` as automata."""

from __future__ import annotations

from ninfer_vllm.automata.expressions import pattern_dfa
from ninfer_vllm.errors import InvalidRegex
from ninfer_vllm.languages.json_schema.located import located
from ninfer_vllm.languages.json_schema.schema import Pattern


def search_pattern(text: str, pointer: str) -> Pattern:
    """The strings in which an expression matches somewhere.

    Errors: InvalidRegex and LimitExceeded, at the pointer.
    """
    try:
        with located(pointer):
            return Pattern(("pattern", text), pattern_dfa(text), pointer)
    except InvalidRegex as error:
        raise InvalidRegex(error.reason, error.offset, pointer) from None
