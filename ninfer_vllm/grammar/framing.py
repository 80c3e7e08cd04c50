"""Fixed framing text around a grammar."""

from __future__ import annotations

from ninfer_vllm.constraint import Frame
from ninfer_vllm.grammar.ir import Grammar, Rule, sequence, text

AFTER_CLOSE = "\n\n"
"""Text between the control token that closes a thinking block and the first content byte (THK-4)."""


def framed(grammar: Grammar, frame: Frame) -> Grammar:
    """The grammar of everything behind the close of the thinking block, or `grammar` itself where none is open."""
    if frame == "content":
        return grammar
    name = "framed"
    while name in grammar.rules:
        name += "_"
    return Grammar({name: sequence(text(AFTER_CLOSE), Rule(grammar.root)), **grammar.rules}, name)
