"""The values of shapes that have only a few (JSX-4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from ninfer_vllm.automata.questions import num_texts, texts
from ninfer_vllm.errors import UnsupportedSchema
from ninfer_vllm.languages.json_schema.literals import Constant, constant_of
from ninfer_vllm.languages.json_schema.numbers import integer_automaton
from ninfer_vllm.languages.json_schema.shapes import Finite, Integers, Shape, Strings
from ninfer_vllm.languages.json_schema.strings import decoded

LISTED_VALUES = 64
"""Values of one shape that are listed."""


def listed_values(shapes: Iterable[Shape], pointer: str) -> list[Constant]:
    """All values of the shapes, each once a spelling.

    Errors: UnsupportedSchema at `pointer`, that of uniqueItems, where there are too many.
    """
    return list(dict.fromkeys(item for shape in shapes for item in _values(shape, pointer)))


def _values(shape: Shape, pointer: str) -> Iterator[Constant]:
    if isinstance(shape, Finite):
        yield from shape.values
        return
    automaton = None
    if isinstance(shape, Integers):
        automaton = integer_automaton(shape)
    elif isinstance(shape, Strings) and shape.patterns:
        automaton = decoded(shape, shape.patterns[0].pointer)
    num_values = None if automaton is None else num_texts(automaton, LISTED_VALUES + 1)
    if automaton is None or num_values is None or num_values > LISTED_VALUES:
        reason = "uniqueItems needs items of few values; check them after parsing"
        raise UnsupportedSchema(pointer, "uniqueItems", reason)
    for text in texts(automaton):
        yield constant_of(Fraction(text) if isinstance(shape, Integers) else text)
