"""Limits that errors name are the ones of `limits.py`, where a person finds value and reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ninfer_vllm import limits

PACKAGES = ("ninfer_vllm", "qwen_frontend")
ROOT = Path(__file__).resolve().parents[2]
CHOSEN_BY_CALLER = {"text_bytes", "grammar_compile_timeout"}
"""What a caller or a server option sets."""


def named_limits() -> Iterator[str]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LimitExceeded":
                    name = node.args[0]
                    if isinstance(name, ast.Constant):
                        yield str(name.value)


def test_every_limit_that_an_error_names_has_its_reason() -> None:
    named = set(named_limits())
    assert len(named) > 20
    assert {name for name in named - CHOSEN_BY_CALLER if not hasattr(limits, name.upper())} == set()
