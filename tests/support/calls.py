"""Tool lists, a small token domain for calls, random legal walks over it, and what a parser makes of tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from ninfer_vllm.constraint import Dialect, ToolConstraint
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.engines.protocol import CompiledGrammar
from ninfer_vllm.grammar.checks import prune
from ninfer_vllm.host.events import ArgumentsDelta, CallFinished, CallStarted, ContentDelta, Event
from ninfer_vllm.languages.lowering import lower
from ninfer_vllm.masks.bits import as_bools, empty_row
from ninfer_vllm.vocabulary import TokenClass, Vocabulary
from qwen_frontend.tools.contract import ToolContract
from qwen_frontend.tools.grammar import lower_tools
from qwen_frontend.tools.parser import CallParser

EOS, OPEN, CLOSE = 256, 257, 258
IDS = (OPEN, CLOSE)
PIECES = (
    "\n</parameter>\n",
    "</parameter>",
    "\n<parameter=",
    "<parameter=",
    ">\n",
    "</function>\n",
    "\n</function>\n",
    "\n<function=",
    "</tool_call>",
    "<tool_call>",
    "\n</para",
    "meter>",
    '\n{"name": "',
    '", "arguments": {',
    '"}',
    "}\n",
    '": ',
    ', "',
    "true",
    "null",
    "[]",
    "é",
    "\n\n",
    "12",
)
ENDS = tuple(piece.encode() for piece in ("\n</parameter>\n", "</function>\n", '"}', "}\n", '"', "}", "]"))
"""Spellings that bring a text towards its end."""

FIRST_BYTE = 10_000
"""Ids from here on stand for the single bytes of a spelling, whatever token they come from."""


def tool(name: str, properties: Mapping[str, Any], *, strict: bool = True, **changes: Any) -> dict[str, Any]:
    """A declaration whose properties are all required and the only ones; `changes` go into the schema."""
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "strict": strict, "parameters": {**schema, **changes}}}


@cache
def call_vocabulary() -> Vocabulary:
    """Every byte, end of text, the two call tokens, and pieces that calls are made of."""
    spellings = [bytes([value]) for value in range(256)]
    spellings += [b"<eos>", b"<tool_call>", b"</tool_call>", *(piece.encode() for piece in PIECES)]
    classes = bytearray([TokenClass.ORDINARY] * len(spellings))
    classes[EOS] = TokenClass.EOS
    classes[OPEN] = classes[CLOSE] = TokenClass.CONTROL
    return Vocabulary(tuple(spellings), bytes(classes), {"<eos>": EOS, "<tool_call>": OPEN, "</tool_call>": CLOSE})


def compiled(contract: ToolContract) -> CompiledGrammar:
    """The contract's grammar over the call vocabulary."""
    body = None if contract.body is None else lower(contract.body)
    return NativeEngine(call_vocabulary()).compile(prune(lower_tools(contract, body, OPEN, CLOSE)))


def contract_of(
    tools: Sequence[Any] | str, choice: Any = "auto", dialect: Dialect = "xml", **more: Any
) -> ToolContract:
    """The contract of a list of declarations."""
    return ToolContract.of(ToolConstraint(tools, choice, **more), dialect)


def walk(grammar: CompiledGrammar, rng: random.Random, patience: int = 40) -> list[int]:
    """Random tokens that the masks allow, up to the end of text.

    After `patience` tokens, those that bring the output to its end are preferred.
    """
    vocabulary = call_vocabulary()
    matcher = grammar.matcher()
    row = empty_row(len(vocabulary))
    tokens: list[int] = []
    while True:
        assert matcher.fill(row), "a random walk must not meet a dead end"
        legal = np.flatnonzero(as_bools(row, len(vocabulary))).tolist()
        token = _drawn(legal, rng, is_late=len(tokens) > patience)
        assert matcher.accept(token)
        if token == EOS:
            return tokens
        tokens.append(token)


def _drawn(legal: Sequence[int], rng: random.Random, *, is_late: bool) -> int:
    controls = [token for token in legal if token in (EOS, OPEN, CLOSE)]
    if controls and rng.random() < (0.9 if is_late else 0.3):
        return EOS if is_late and EOS in controls else rng.choice(controls)
    ends = [token for token in legal if call_vocabulary().spellings[token] in ENDS]
    if ends and rng.random() < (0.9 if is_late else 0.2):
        return rng.choice(ends)
    pieces = [token for token in legal if token > CLOSE]
    return rng.choice(pieces if pieces and rng.random() < 0.5 else legal)


@dataclass
class Read:
    """What a parser published."""

    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Names and the texts of arguments."""

    @property
    def arguments(self) -> list[Any]:
        """The values of the arguments."""
        return [json.loads(text) for _, text in self.calls]


def read(events: Iterable[Event]) -> Read:
    """What events say; every delta must add up to what is said at the end."""
    found = Read()
    names: dict[int, str] = {}
    deltas: dict[int, str] = {}
    for event in events:
        if isinstance(event, ContentDelta):
            found.content += event.text
        elif isinstance(event, CallStarted):
            names[event.index] = event.name
        elif isinstance(event, ArgumentsDelta):
            deltas[event.index] = deltas.get(event.index, "") + event.text
        elif isinstance(event, CallFinished):
            assert event.index == len(found.calls)
            assert (event.name, event.arguments) == (names[event.index], deltas[event.index])
            found.calls.append((event.name, event.arguments))
    return found


def spelling_of(token: int) -> bytes:
    """The spelling of a token of the call vocabulary, or the byte that an id from `FIRST_BYTE` on stands for."""
    return bytes([token - FIRST_BYTE]) if token >= FIRST_BYTE else call_vocabulary().spellings[token]


def as_bytes(text: str) -> list[int]:
    """A text in single bytes, whatever it looks like."""
    return [FIRST_BYTE + value for value in text.encode()]


def in_bytes(tokens: Iterable[int]) -> list[int]:
    """The same tokens with every ordinary one cut into single bytes."""
    parts = ([token] if token in IDS else [FIRST_BYTE + value for value in spelling_of(token)] for token in tokens)
    return [part for token_parts in parts for part in token_parts]


def in_tokens(text: str) -> list[int]:
    """A text in single bytes, call markers as their tokens."""
    tokens: list[int] = []
    rest = text.encode()
    while rest:
        marker = next((token for token in IDS if rest.startswith(spelling_of(token))), None)
        tokens.append(FIRST_BYTE + rest[0] if marker is None else marker)
        rest = rest[len(spelling_of(tokens[-1])) :]
    return tokens


def parse(
    contract: ToolContract | None,
    tokens: Sequence[int],
    cuts: Callable[[int], Iterable[int]] = lambda _: (),
    reason: str = "stop",
) -> Read:
    """What a new parser makes of tokens given in parts; `cuts` names the places to cut, by the number of tokens."""
    parser = CallParser(contract, IDS, spelling_of)
    bounds = [0, *cuts(len(tokens)), len(tokens)]
    events = [event for start, end in pairwise(bounds) for event in parser.feed(tokens[start:end])]
    return read([*events, *parser.finish(reason)])
