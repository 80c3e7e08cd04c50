"""The page that says what is supported shows the keyword table itself, and says of each keyword how far it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ninfer_vllm.languages.json_schema.assertions import READERS
from ninfer_vllm.languages.json_schema.keywords import TABLE
from ninfer_vllm.languages.json_schema.support import keyword_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "supported.md"


def test_page_holds_the_generated_table() -> None:
    assert keyword_table() in PAGE.read_text(encoding="utf-8")


@pytest.mark.contract("JSC-6", "GEN-6")
def test_keyword_is_read_where_it_is_enforced_and_nowhere_else() -> None:
    enforced = {keyword.name for keyword in TABLE if keyword.role in ("assertion", "location")}
    assert enforced == set(READERS)


def test_refused_keyword_says_what_to_do_instead() -> None:
    assert [keyword.name for keyword in TABLE if (keyword.role == "refused") != bool(keyword.advice)] == []
