"""Modules and functions stay small, and every module opens with what it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT, modules

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
# A kernel is one loop nest by nature; cutting it up would hide its data flow.
MAX_KERNEL_LINES = 120
KERNEL_DECORATORS = ("triton.jit", "compiled(")

each_module = pytest.mark.parametrize("module", modules(), ids=str)


@each_module
def test_module_is_short(module: Path) -> None:
    assert len(_text(module).splitlines()) <= MAX_MODULE_LINES


@each_module
def test_functions_are_short(module: Path) -> None:
    assert list(_long_functions(ast.parse(_text(module)))) == []


@each_module
def test_module_opens_with_a_sentence(module: Path) -> None:
    docstring = ast.get_docstring(ast.parse(_text(module)))
    assert docstring, "the first statement is a docstring"
    assert docstring.split("\n\n")[0].rstrip().endswith((".", "?", ":")), "its first paragraph is a sentence"


def test_long_function_is_noticed() -> None:
    body = "    pass\n" * MAX_FUNCTION_LINES
    assert list(_long_functions(ast.parse(f"def f():\n{body}"))) == ["f: 61 lines"]
    assert list(_long_functions(ast.parse(f"@triton.jit\ndef f():\n{body}"))) == []


def _text(module: Path) -> str:
    return (ROOT / module).read_text(encoding="utf-8")


def _long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if num_lines > (MAX_KERNEL_LINES if _is_kernel(node) else MAX_FUNCTION_LINES):
                yield f"{node.name}: {num_lines} lines"


def _is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator).startswith(KERNEL_DECORATORS) for decorator in function.decorator_list)
