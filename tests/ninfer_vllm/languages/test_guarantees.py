"""What holds for every language alike: one run-time object, no branch on kinds, and docs that promise no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ninfer_vllm.constraint import OutputConstraint
from ninfer_vllm.grammar.ir import Grammar
from ninfer_vllm.grammar.wire import decode, encode
from ninfer_vllm.languages.lowering import lower

ROOT = Path(__file__).resolve().parents[3]
KIND = re.compile(r"json_schema|json_object|\bjson\b|\bgbnf\b|\bregex\b|\bchoice\b|\btools?\b", re.IGNORECASE)
STRING = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")

CONSTRAINTS = (
    OutputConstraint.json_object(),
    OutputConstraint.json_schema({"type": "integer", "minimum": 3}),
    OutputConstraint.choice(["a", "ab"]),
    OutputConstraint.regex("a+b?"),
    OutputConstraint.grammar('root ::= "a" root | ""'),
)


@pytest.mark.contract("GEN-5")
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: constraint.kind)
def test_every_kind_becomes_the_same_object(constraint: OutputConstraint) -> None:
    grammar = lower(constraint)
    assert type(grammar) is Grammar
    assert encode(decode(encode(grammar))) == encode(grammar)


@pytest.mark.contract("GEN-5")
@pytest.mark.parametrize("package", ["masks", "sampling", "session", "engines"])
def test_what_runs_beside_the_model_names_no_kind(package: str) -> None:
    modules = sorted((ROOT / "ninfer_vllm" / package).rglob("*.py"))
    assert modules
    named = {
        f"{module.name}: {found}"
        for module in modules
        for found in _compared_strings(module.read_text(encoding="utf-8"))
        if KIND.search(found)
    }
    assert named == set()


def _compared_strings(source: str) -> list[str]:
    """The strings on lines that compare or match."""
    lines = (line for line in source.splitlines() if re.search(r"==|!=|\bin\b|\bcase\b|\bkind\b", line))
    return [found for line in lines if not line.lstrip().startswith(("#", '"""')) for found in STRING.findall(line)]


@pytest.mark.contract("GEN-4", "GEN-10")
def test_docs_say_what_is_guaranteed_and_what_is_not() -> None:
    quickstart = " ".join((ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8").split())
    assert "That is not the model's distribution conditioned on the whole output being legal" in quickstart
    assert "Structure is guaranteed, truth is not" in quickstart
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "a promise about structure, not about truth" in readme
