"""The `jsonschema` validator with an exact `multipleOf`: its own divides binary64 values, which errs from 2^53 on."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend


def _multiple_of(validator: Any, divisor: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    del schema
    if validator.is_type(value, "number") and Fraction(repr(value)) % Fraction(repr(divisor)):
        yield ValidationError(f"{value!r} is not a multiple of {divisor!r}")


ExactValidator = extend(Draft202012Validator, {"multipleOf": _multiple_of})
