"""Markers in text that comes in pieces are found wherever the pieces are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninfer_vllm.host.marked_text import MarkedText

MARKERS = {"<think>": 1, "</think>": 2, "<tool_call>": 3}
PIECES = st.lists(st.sampled_from(["<", "<t", "think>", "<think>", "</think>", "<tool_call>", "a", "海", "</thin"]))


def read(text: str, cuts: list[int]) -> list[int | bytes]:
    marked = MarkedText(MARKERS)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    parts: list[int | bytes] = []
    for at, (begin, end) in enumerate(itertools.pairwise(edges)):
        parts += marked.parts(text[begin:end], last=at == len(edges) - 2)
    return joined(parts)


def joined(parts: list[int | bytes]) -> list[int | bytes]:
    found: list[int | bytes] = []
    for part in parts:
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found


@pytest.mark.contract("THK-8")
@given(pieces=PIECES, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_cuts_change_nothing_and_nothing_is_lost(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    parts = read(text, cuts)
    assert parts == read(text, [])
    spelled = {token: marker.encode() for marker, token in MARKERS.items()}
    assert b"".join(part if isinstance(part, bytes) else spelled[part] for part in parts).decode() == text


def test_markers_are_ids_and_text_is_held_only_as_long_as_it_may_be_one() -> None:
    marked = MarkedText(MARKERS)
    assert list(marked.parts("a<", last=False)) == [b"a"]
    assert list(marked.parts("b</think", last=False)) == [b"<b"]
    assert list(marked.parts(">c", last=False)) == [2, b"c"]
    assert list(marked.parts("<", last=True)) == [b"<"]
    assert list(MarkedText({}).parts("<think>", last=False)) == [b"<think>"]
