"""List the contract clauses that no test names, and the names in tests that are no clause.

Usage: python tests/contract_coverage.py [CONTRACT_DIR]

A clause is a list item that starts with its id, as in "- RGX-4 ...". A test names clauses with
`@pytest.mark.contract("RGX-4", ...)` on a function, a class, a parameter set or a module. The tests are
read, not imported, so the report needs neither the host nor a model. Exit status 1 says that a mark names
no clause or can not be read; a clause without a test is only listed.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TESTS = REPOSITORY / "tests"
CONTRACT = REPOSITORY / "docs" / "contract"

CLAUSE = re.compile(r"^- ([A-Z]+-[0-9]+)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mark:
    """One argument of a contract mark; without an id where it is no literal string."""

    place: str
    clause: str | None


def clauses_in(folder: Path) -> tuple[str, ...]:
    """Return the ids of all clauses that the folder's pages define, in reading order."""
    pages = sorted(folder.glob("*.md"))
    return tuple(clause for page in pages for clause in CLAUSE.findall(page.read_text(encoding="utf-8")))


def marks_in(folder: Path) -> tuple[Mark, ...]:
    """Return every argument of every contract mark in the test modules below a folder."""
    return tuple(mark for module in sorted(folder.rglob("*.py")) for mark in _marks_of(module, folder))


def family_of(clause: str) -> str:
    """Return the part of an id that names its family: RGX for RGX-4."""
    return clause.rpartition("-")[0]


def report(clauses: tuple[str, ...], marks: tuple[Mark, ...]) -> Iterator[str]:
    """Yield the lines of the report: a row a family, then what is wrong."""
    named = {mark.clause for mark in marks}
    yield "family  clauses  named  without a test"
    for family, ids in _by_family(clauses).items():
        missing = [clause for clause in ids if clause not in named]
        numbers = " ".join(clause.rpartition("-")[2] for clause in missing)
        yield f"{family:<7} {len(ids):>7} {len(ids) - len(missing):>6}  {numbers}".rstrip()
    yield f"{'total':<7} {len(clauses):>7} {len(named & set(clauses)):>6}"
    yield from faults(clauses, marks)


def faults(clauses: tuple[str, ...], marks: tuple[Mark, ...]) -> Iterator[str]:
    """Yield a line for each mark that names no clause or can not be read."""
    known = set(clauses)
    for mark in marks:
        if mark.clause is None:
            yield f"{mark.place}: a contract mark takes literal clause ids"
        elif mark.clause not in known:
            yield f"{mark.place}: {mark.clause} is no clause of the contract"


def main(arguments: list[str]) -> int:
    """Print the report; return the exit status."""
    parser = argparse.ArgumentParser(description="List the contract clauses that no test names.")
    parser.add_argument("contract", nargs="?", type=Path, default=CONTRACT, help="the folder of the contract's pages")
    clauses = clauses_in(parser.parse_args(arguments).contract)
    marks = marks_in(TESTS)
    print("\n".join(report(clauses, marks)))
    return 1 if any(faults(clauses, marks)) or not clauses else 0


def _marks_of(module: Path, folder: Path) -> Iterator[Mark]:
    tree = ast.parse(module.read_text(encoding="utf-8"), filename=str(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_contract_mark(node.func):
            for argument in node.args:
                place = f"{module.relative_to(folder.parent)}:{argument.lineno}"
                is_literal = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                yield Mark(place, argument.value if is_literal else None)


def _is_contract_mark(function: ast.expr) -> bool:
    # pytest.mark.contract, or mark.contract where `mark` was imported from pytest.
    if not (isinstance(function, ast.Attribute) and function.attr == "contract"):
        return False
    owner = function.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "mark") or (
        isinstance(owner, ast.Name) and owner.id == "mark"
    )


def _by_family(clauses: tuple[str, ...]) -> Mapping[str, list[str]]:
    families: dict[str, list[str]] = {}
    for clause in clauses:
        families.setdefault(family_of(clause), []).append(clause)
    return families


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
