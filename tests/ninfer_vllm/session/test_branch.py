"""The branch of a sample: decided by committed tokens behind the frame, never by previews."""

from __future__ import annotations

import pytest

from ninfer_vllm.constraint import Frame
from ninfer_vllm.engines.native.engine import NativeEngine
from ninfer_vllm.engines.protocol import CompiledGrammar
from ninfer_vllm.grammar.framing import framed
from ninfer_vllm.grammar.ir import Grammar, Token, alternation, sequence, text
from ninfer_vllm.session.phases import ThinkingRules
from ninfer_vllm.session.session import OutputSession
from ninfer_vllm.vocabulary import Vocabulary
from tests.support.vocabularies import END_THINK, EOS, THINK, byte_vocabulary, token_of

OPEN = THINK
"""Stands for the token that begins a call."""
LF, TWO = token_of(b"\n"), token_of(b"\n\n")


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return byte_vocabulary()


@pytest.fixture(scope="module")
def grammar() -> Grammar:
    call = sequence(Token(frozenset((OPEN,))), text("c"))
    return Grammar({"root": alternation(text("{}"), call, sequence(text("hi"), call), text("\nx"))}, "root")


def session_of(vocabulary: Vocabulary, grammar: Grammar, frame: Frame) -> OutputSession:
    compiled: CompiledGrammar = NativeEngine(vocabulary).compile(framed(grammar, frame))
    session = OutputSession("tools", "native", frame, tool_id=OPEN)
    rules = None if frame == "content" else ThinkingRules.of(vocabulary, THINK, END_THINK)
    session.attach(compiled, "built", rules)
    return session


def commit(session: OutputSession, *tokens: int) -> str:
    assert session.preview(tokens) == len(tokens)
    session.commit(len(tokens))
    return session.record.branch


@pytest.mark.contract("TOOL-12", "OBS-1")
def test_first_committed_token_decides(vocabulary: Vocabulary, grammar: Grammar) -> None:
    session = session_of(vocabulary, grammar, "content")
    assert session.record.branch == "undecided"
    assert session.preview((ord("{"),)) == 1
    assert session.record.branch == "undecided"
    session.discard()
    assert commit(session, OPEN) == "tools"
    assert commit(session, ord("c"), EOS) == "tools"


@pytest.mark.contract("TOOL-12")
def test_part_of_a_preview_that_is_given_back_decides_nothing(vocabulary: Vocabulary, grammar: Grammar) -> None:
    session = session_of(vocabulary, grammar, "content")
    assert session.preview((OPEN, ord("c"))) == 2
    session.commit(0)
    assert session.record.branch == "undecided"
    assert commit(session, ord("{")) == "content"


@pytest.mark.contract("TOOL-12")
def test_call_behind_content_is_a_call(vocabulary: Vocabulary, grammar: Grammar) -> None:
    session = session_of(vocabulary, grammar, "content")
    assert commit(session, ord("h")) == "content"
    assert commit(session, ord("i"), OPEN) == "tools"


@pytest.mark.contract("TOOL-12", "THK-4")
@pytest.mark.parametrize("frame", [(TWO,), (LF, LF)])
@pytest.mark.parametrize(("first", "branch"), [(OPEN, "tools"), (ord("{"), "content"), (LF, "content")])
def test_line_breaks_of_the_frame_decide_nothing(
    vocabulary: Vocabulary, grammar: Grammar, frame: tuple[int, ...], first: int, branch: str
) -> None:
    session = session_of(vocabulary, grammar, "thinking")
    assert commit(session, ord("x"), LF) == "undecided"
    assert commit(session, END_THINK) == "undecided"
    assert commit(session, *frame) == "undecided"
    assert commit(session, first) == branch
