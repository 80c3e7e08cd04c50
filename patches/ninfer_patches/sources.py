"""Signature and source digest of a definition of the host, read from its file without importing it."""

from __future__ import annotations

import ast
import hashlib
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ninfer_patches.patch import split


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is recorded of one definition."""

    signature: str
    digest: str


class DefinitionMissing(LookupError):
    """The host's file has no such definition."""


def fingerprint(path: str, root: Path) -> Fingerprint:
    """Signature and digest of "package.module:Qualified.name" in the package folder `root`.

    The digest covers the definition's own lines without trailing white space and without common indentation, so it is
    the same on every Python version.

    Errors: DefinitionMissing.
    """
    module, name = split(path)
    file = _file_of(module, root)
    node = _find(file, name)
    lines = _lines(file)[node.lineno - 1 : node.end_lineno]
    text = textwrap.dedent("\n".join(line.rstrip() for line in lines))
    return Fingerprint(_signature(node), hashlib.sha256(text.encode()).hexdigest()[:16])


def _file_of(module: str, root: Path) -> Path:
    parts = module.split(".")[1:]
    for candidate in (root.joinpath(*parts).with_suffix(".py"), root.joinpath(*parts, "__init__.py")):
        if candidate.is_file():
            return candidate
    raise DefinitionMissing(module)


@lru_cache(maxsize=32)
def _lines(file: Path) -> tuple[str, ...]:
    return tuple(file.read_text(encoding="utf-8").splitlines())


@lru_cache(maxsize=32)
def _tree(file: Path) -> ast.Module:
    return ast.parse("\n".join(_lines(file)))


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _find(file: Path, name: str) -> Definition:
    scope: ast.Module | Definition = _tree(file)
    for part in name.split("."):
        scope = _member(scope, part, file)
    assert not isinstance(scope, ast.Module)
    return scope


def _member(scope: ast.Module | Definition, name: str, file: Path) -> Definition:
    for node in scope.body:
        if isinstance(node, Definition) and node.name == name:
            return node
    raise DefinitionMissing(f"{file.name}: {name}")


def _signature(node: Definition) -> str:
    if isinstance(node, ast.ClassDef):
        return ", ".join(ast.unparse(base) for base in node.bases)
    return ast.unparse(node.args)
