"""A real ECMAScript engine as the authority for regular expressions: Node.js, asked line by line."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence

PROGRAM = """
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const {source, flags, texts} = JSON.parse(line);
  let answer;
  try {
    new RegExp(source, flags);
    const whole = new RegExp(`^(?:${source})$`, flags);
    answer = texts.map(text => whole.test(text));
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
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"source": source, "flags": flags, "texts": list(texts)}) + "\n")
        stdin.flush()
        answer: list[bool] | None = json.loads(stdout.readline())
        return answer

    def close(self) -> None:
        """End the engine."""
        self._process.communicate()


def program() -> str:
    """The path of Node.js; empty where it is absent."""
    return shutil.which("node") or ""
