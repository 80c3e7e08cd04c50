"""The contract in the documentation is the one that the project was given."""

from pathlib import Path

import pytest

from tests.architecture.repository import ROOT

OURS = ROOT / "docs" / "contract"
GIVEN = ROOT.parent / "shared" / "contract"


@pytest.mark.skipif(not GIVEN.is_dir(), reason="no shared/contract beside the repository")
def test_contract_is_the_given_one() -> None:
    assert _pages(OURS) == _pages(GIVEN)


def test_every_page_of_the_contract_is_linked() -> None:
    index = (OURS / "README.md").read_text(encoding="utf-8")
    unlinked = [page.name for page in OURS.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index]
    assert unlinked == []


def _pages(folder: Path) -> dict[str, bytes]:
    return {page.name: page.read_bytes() for page in sorted(folder.glob("*.md"))}
