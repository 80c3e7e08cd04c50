"""The table of every error in the troubleshooting page: `python -m tests.support.error_table` writes it anew."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path

from ninfer_vllm import embedded, errors

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
BEGIN, END = "<!-- generated: errors -->\n", "<!-- end -->\n"
PLACES = ("line", "column", "offset", "pointer", "index", "field", "limit")


def classes() -> list[type[errors.NInferError]]:
    """Every error that can reach a user, in the order in which they are defined."""
    assert issubclass(embedded.ModelBuildError, errors.NInferError)
    found: dict[type[errors.NInferError], None] = {}

    def visit(kind: type[errors.NInferError]) -> None:
        for child in kind.__subclasses__():
            if child.__module__.startswith("ninfer_vllm") and child.__name__ == child.__qualname__:
                if is_dataclass(child):
                    found[child] = None
                visit(child)

    visit(errors.NInferError)
    return list(found)


def table() -> str:
    """The lines of the table: code, status, class, place, meaning."""
    lines = ["| code | HTTP | Python | place | meaning |", "|---|---|---|---|---|"]
    for kind in classes():
        status = "start-up" if issubclass(kind, errors.HostError) else str(kind.status.value)
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        place = ", ".join(f"`{name}`" for name in PLACES if name in names)
        meaning = (kind.__doc__ or "").split("\n")[0]
        lines.append(f"| `{kind.code}` | {status} | `{kind.__name__}` | {place} | {meaning} |")
    return "\n".join(lines) + "\n"


def parts(text: str) -> tuple[str, str, str]:
    """What stands before the table, the table, and what stands behind it."""
    before, rest = text.split(BEGIN)
    inside, after = rest.split(END)
    return before, inside, after


if __name__ == "__main__":
    before, _, after = parts(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(before + BEGIN + table() + END + after, encoding="utf-8")
