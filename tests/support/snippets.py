"""The code blocks of the documentation, for tests that run them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.repository import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "operations").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

NEEDS_ENGINE = re.compile(r"\b(?:from|import) vllm\b|\b(?:SamplingParams|LLM)\(|\bllm\.")
NEEDS_SERVER = re.compile(r"\b(?:OpenAI|Anthropic)\(|\bclient\.")


@dataclass(frozen=True, slots=True)
class Posted:
    """What a `curl` line sends."""

    path: str
    body: str


def blocks(page: Path, language: str) -> list[str]:
    """The texts of a page's code blocks in one language; "" is a block of commands."""
    return [text for named, text in FENCE.findall(page.read_text(encoding="utf-8")) if named == language]


def plain_python(page: Path) -> list[str]:
    """The Python blocks that need neither an engine nor a server."""
    return [
        text for text in blocks(page, "python") if not (NEEDS_ENGINE.search(text) or NEEDS_SERVER.search(text))
    ]  # fmt: skip


def commands(page: Path) -> list[list[str]]:
    """The words of every `ninfer` command that a page shows, comments and prompts left out."""
    lines = "\n".join(blocks(page, "")).replace("\\\n", " ").splitlines()
    shown = (shlex.split(line.removeprefix("$ "), comments=True) for line in lines if "ninfer " in line)
    return [words[1:] for words in shown if words and words[0] == "ninfer"]


def posted(page: Path) -> list[Posted]:
    """What the `curl` commands of a page send."""
    found = []
    for text in blocks(page, ""):
        if text.startswith("curl "):
            words = shlex.split(text)
            url = next(word for word in words[1:] if ":8000/" in word)
            found.append(Posted(url.partition(":8000")[2], words[words.index("-d") + 1]))
    return found
