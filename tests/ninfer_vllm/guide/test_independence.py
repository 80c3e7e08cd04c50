"""The guide is a library of its own: it loads no host, no torch and no other engine, and its page's examples run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.architecture.repository import ROOT, modules

PROGRAM = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "vllm", "xgrammar", "triton"):
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import random
from ninfer_vllm import OutputConstraint
from ninfer_vllm.guide import Guide, plain_vocabulary

guide = Guide.of(OutputConstraint.regex("[0-9]{3}"), plain_vocabulary([bytes([b]) for b in range(256)] + [b""], [256]))
print(guide.monkey(random.Random(1), 9).finished)
"""
FOREIGN = re.compile(r"^\s*(?:import|from) (?:regex|interegular|greenery|rstr|exrex|sre_parse)\b", re.MULTILINE)


@pytest.mark.contract("GDE-3")
def test_guide_runs_without_torch_vllm_and_xgrammar() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.contract("GDE-11")
def test_product_has_no_second_expression_library() -> None:
    product = [path for path in modules() if path.parts[0] not in ("tests", "examples")]
    assert len(product) > 50
    assert [path for path in product if FOREIGN.search((ROOT / path).read_text(encoding="utf-8"))] == []


@pytest.mark.contract("GDE-4", "GDE-5", "GDE-6")
def test_snippets_of_the_page_run_and_print_what_it_says() -> None:
    page = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    snippets = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(snippets) >= 4
    for snippet in snippets:
        expected = re.findall(r"^print\(.*\)  # (.*)$", snippet, re.MULTILINE)
        printed: list[str] = []
        names["print"] = lambda *values, printed=printed: printed.append(" ".join(map(str, values)))
        exec(compile(snippet, "docs/guide.md", "exec"), names)
        assert printed == expected
