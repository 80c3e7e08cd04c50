"""Numbers judged by exact arithmetic: whether a spelling satisfies bounds as written, and as a parser reads it."""

from __future__ import annotations

import re
from fractions import Fraction
from math import isinf

PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?")
SCIENTIFIC = re.compile(r"-?[1-9](?:\.[0-9]+)?[eE][+-]?[0-9]{1,3}")
INT64 = range(-(2**63), 2**63)


def satisfies(text: str, bounds: dict[str, int | float]) -> bool:
    """Whether the number is finite and on the right side of every bound, read exactly and as binary64."""
    written, parsed = Fraction(text), float(text)
    return not isinf(parsed) and all(
        _on_side(keyword, written, _exact(bound))
        and _on_side(keyword, parsed, bound)
        and _on_side(keyword, parsed, float(bound))
        for keyword, bound in bounds.items()
    )


def is_writable(text: str) -> bool:
    """Whether the spelling is one that bounded numbers have: int64, or 17 significant digits plain or scientific."""
    if PLAIN.fullmatch(text) and "." not in text and text != "-0" and int(text) in INT64:
        return True
    mantissa = re.split("[eE]", text)[0].lstrip("-").replace(".", "")
    zeros = len(mantissa) - len(mantissa.lstrip("0"))
    if len(mantissa.lstrip("0")) > 17:
        return False
    if SCIENTIFIC.fullmatch(text):
        return -324 <= int(re.split("[eE]", text)[1]) <= 308
    plain = PLAIN.fullmatch(text)
    return plain is not None and (plain[1] != "0" or zeros - 1 <= 17)


def _exact(bound: float) -> Fraction:
    return Fraction(repr(bound)) if isinstance(bound, float) else Fraction(bound)


def _on_side(keyword: str, number: Fraction | float, bound: Fraction | float) -> bool:
    if keyword == "minimum":
        return number >= bound
    if keyword == "maximum":
        return number <= bound
    return number > bound if keyword == "exclusiveMinimum" else number < bound
