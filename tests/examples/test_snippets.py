"""The snippets of the documentation that need an engine run, on one engine, as a reader would type them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.snippets import DOCS, NEEDS_ENGINE, NEEDS_SERVER, PAGES, blocks

QUICKSTART = DOCS / "quickstart.md"
OWN_ENGINE = 'LLM("path/to/model", additional_config={"ninfer": {}})'
"""What the first page says of a model of the reader's own; here it is the engine of the quickstart."""

GIVEN = """
from pydantic import ConfigDict, create_model
Answer = create_model("Answer", __config__=ConfigDict(extra="forbid"), city=(str, ...))
messages = [{"role": "user", "content": "Which is the capital of France?"}]
function = {"name": "answer", "strict": True, "parameters": Answer.model_json_schema()}
declarations = [{"type": "function", "function": function}]
"""
"""What the shorter snippets take as given."""

RUNNER = """
if __name__ == "__main__":
    names = {{"__name__": "__main__"}}
    for page, text in {texts!r}:
        print("==", page, flush=True)
        exec(compile(text, page, "exec"), names)
    print("== end")
"""


@pytest.mark.engine
@pytest.mark.contract("API-2", "THK-7", "CON-1", "TOOL-4")
def test_snippets_that_need_an_engine_run(tmp_path: Path) -> None:
    texts = [
        (str(page.name), text.replace(OWN_ENGINE, "llm"))
        for page in (QUICKSTART, *(page for page in PAGES if page != QUICKSTART))
        for text in blocks(page, "python")
        if NEEDS_ENGINE.search(text) and not NEEDS_SERVER.search(text)
    ]
    assert "LLM(" in texts[0][1]
    assert all("LLM(" not in text for _, text in texts[1:]), "one engine is enough"
    script = tmp_path / "snippets.py"
    script.write_text(RUNNER.format(texts=[texts[0], ("given", GIVEN), *texts[1:]]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""}
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "\n== end\n" in done.stdout
    assert "name=" in done.stdout, "the quickstart's person was parsed"
