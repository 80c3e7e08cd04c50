"""White space: none by default, any amount at structural places and nowhere else where it is asked for."""

from __future__ import annotations

import json
import random
import re

import pytest

from ninfer_vllm import OutputConstraint
from ninfer_vllm.guide import ENDED, Guide
from tests.support.vocabularies import byte_vocabulary

VOCABULARY = byte_vocabulary()
pytestmark = pytest.mark.contract("GDE-6")

VALUES: list[object] = [
    {"a": [1, "x y", {}], "b,": {"c:{": [], 'q"\\': " [1, 2] "}},
    [],
    {},
    "a, b: {}",
    "ends in a backslash \\",
    -12,
    None,
]
SPACES = ("", " ", "\t", "\r\n", "\n" * 40)


def _accepts(guide: Guide, text: str) -> bool:
    return guide.automaton.accepts(text.encode())


def _constant(value: object, whitespace: str) -> Guide:
    return Guide.of(OutputConstraint.json_schema({"const": value}, whitespace=whitespace), VOCABULARY)  # type: ignore[arg-type]


def _tokens(compact: str) -> list[str]:
    """The structural tokens and scalars of compact JSON, cut by an expression of the test's own."""
    return re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\[\]{},:"]+', compact)


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_constant_takes_white_space_beside_structural_marks_only(value: object) -> None:
    compact = json.dumps(value, separators=(",", ":"))
    tight, loose = _constant(value, "compact"), _constant(value, "flexible")
    tokens = _tokens(compact)
    assert "".join(tokens) == compact
    for space in SPACES:
        spaced = space + space.join(tokens) + space
        assert _accepts(loose, spaced)
        assert _accepts(tight, spaced) == (space == "")
    for at in range(len(compact) + 1):
        changed = compact[:at] + " " + compact[at:]
        assert not _accepts(tight, changed)
        assert _accepts(loose, changed) == _is_same_value(changed, value)


def _is_same_value(text: str, value: object) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


def test_containers_separators_and_ends_take_any_run_of_json_white_space() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "boolean"}}},
        "required": ["n"],
        "additionalProperties": False,
    }
    loose = Guide.of(OutputConstraint.json_schema(schema, whitespace="flexible"), VOCABULARY)
    tight = Guide.of(OutputConstraint.json_schema(schema), VOCABULARY)
    assert _accepts(tight, '{"n":1,"l":[true,false]}')
    rng = random.Random(17)
    for _ in range(200):
        parts = _tokens('{"n":-10,"l":[true,false]}')
        text = "".join(part + "".join(rng.choice(" \t\r\n") for _ in range(rng.randrange(30))) for part in ["", *parts])
        assert _accepts(loose, text)
    for wrong in ('{"n": - 1}', '{"n":1 0}', '{"n ":1}', '{"n":1,"l":[tr ue]}', '{"n":1}\x0b', '\u00a0{"n":1}'):
        assert not _accepts(loose, wrong)


def test_runs_of_white_space_do_not_stop_finishing() -> None:
    loose = _constant({"a": []}, "flexible")
    space = ord(" ")
    state = loose.start
    for _ in range(500):
        state = loose.step(state, space)
    assert space in loose.allowed(state)
    assert space not in loose.finishing(state)
    assert loose.distance(state) == len('{"a":[]}')
    steps = 0
    while state != ENDED:
        token = loose.monkey_step(state, random.Random(steps), finish=True)
        assert token is not None
        state, steps = loose.step(state, token), steps + 1
    assert steps <= len('{"a":[]}') + 1


def test_white_space_behind_a_complete_text_stays_legal_and_finishing_ends_it() -> None:
    loose = _constant(7, "flexible")
    state = loose.step(loose.start, ord("7"))
    assert ord(" ") in loose.allowed(state)
    assert [target for _, target in loose.finishing(state)] == [ENDED]
