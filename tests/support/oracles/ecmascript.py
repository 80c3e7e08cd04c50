"""A real ECMAScript engine as the authority for regular expressions: Node.js, asked line by line."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence

PROGRAM = """
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const {source, flags, texts, isWhole} = JSON.parse(line);
  let answer;
  try {
    const search = new RegExp(source, flags);
    const asked = isWhole ? new RegExp(`^(?:${source})$`, flags) : search;
    answer = texts.map(text => asked.test(text));
  } catch (error) { answer = null; }
  console.log(JSON.stringify(answer));
});
"""


class Node:
    """A running engine; `close` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [program(), "-e", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def full_match(self, source: str, texts: Sequence[str], *, flags: str = "u") -> list[bool] | None:
        """Whether the whole of each text matches; None where the engine does not take the expression."""
        return self._ask(source, texts, flags, is_whole=True)

    def search(self, source: str, texts: Sequence[str], *, flags: str = "u") -> list[bool] | None:
        """Whether some part of each text matches; None where the engine does not take the expression."""
        return self._ask(source, texts, flags, is_whole=False)

    def _ask(self, source: str, texts: Sequence[str], flags: str, *, is_whole: bool) -> list[bool] | None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        question = {"source": source, "flags": flags, "texts": list(texts), "isWhole": is_whole}
        stdin.write(json.dumps(question) + "\n")
        stdin.flush()
        answer: list[bool] | None = json.loads(stdout.readline())
        return answer

    def close(self) -> None:
        """End the engine."""
        self._process.communicate()


def program() -> str:
    """The path of Node.js; empty where it is absent."""
    return shutil.which("node") or ""
