"""The closed set of errors: codes, places, and the way across a process boundary."""

from __future__ import annotations

import pickle

import pytest

from ninfer_vllm.errors import (
    CompileFailed,
    ConflictingConstraint,
    ConstraintDeadEnd,
    ConstraintError,
    InvalidChoice,
    InvalidContinuation,
    InvalidGrammar,
    InvalidRegex,
    InvalidSchema,
    LimitExceeded,
    MalformedSchemaText,
    NInferError,
    NonFiniteLogits,
    UnrepresentableToolValue,
    Unsatisfiable,
    UnsupportedSchema,
    UnsupportedTokenizer,
    rebuilt,
    status_of,
)

SAMPLES = {
    InvalidGrammar("expected a rule", 2, 5): ("invalid_grammar", {"line": 2, "column": 5}),
    InvalidSchema("/type", "unknown type"): ("invalid_schema", {"pointer": "/type"}),
    MalformedSchemaText("expected ','", 1, 9): ("invalid_schema", {"line": 1, "column": 9}),
    UnsupportedSchema("/not", "not", "not enforced"): ("unsupported_schema", {"pointer": "/not"}),
    Unsatisfiable("empty enum", "/enum"): ("unsatisfiable", {"pointer": "/enum"}),
    InvalidRegex("unbalanced", 3): ("invalid_regex", {"offset": 3}),
    InvalidChoice("not a string", 2): ("invalid_choice", {"index": 2}),
    ConflictingConstraint("stop", "refused"): ("conflicting_constraint", {"field": "stop"}),
    InvalidContinuation("wrong byte", 4): ("invalid_continuation", {"offset": 4}),
    UnrepresentableToolValue("/a", "holds a delimiter"): ("unrepresentable_tool_value", {"pointer": "/a"}),
    UnsupportedTokenizer("Slow", "not fast"): ("unsupported_tokenizer", {}),
    LimitExceeded("regular_states", 10, 11): ("limit_exceeded", {"limit": "regular_states"}),
    ConstraintDeadEnd(3): ("constraint_dead_end", {}),
    NonFiniteLogits(3): ("non_finite_logits", {}),
}


@pytest.mark.contract("ERR-1")
@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_code_and_place_are_the_contracts(error: NInferError) -> None:
    code, place = SAMPLES[error]
    assert error.to_json() == {"code": code, "message": str(error), "place": place}


@pytest.mark.contract("ERR-1")
@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_error_survives_processes_as_itself(error: NInferError) -> None:
    assert pickle.loads(pickle.dumps(error)) == error
    assert rebuilt(*error.to_wire()) == error


@pytest.mark.contract("ERR-2", "ERR-3", "ERR-5")
def test_families_decide_the_status() -> None:
    assert isinstance(InvalidRegex("x", 0), ValueError)
    assert {status_of(code) for error, (code, _) in SAMPLES.items() if isinstance(error, ConstraintError)} == {400}
    assert status_of("constraint_dead_end") == status_of("non_finite_logits") == 422
    assert status_of(CompileFailed("x").code) == 500
