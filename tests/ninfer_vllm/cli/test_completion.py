"""`ninfer completion` prints scripts that real shells take, with the words of the real parsers."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ninfer_vllm.cli.completion import script
from ninfer_vllm.cli.main import COMMANDS

pytestmark = pytest.mark.contract("API-6")
BASH = shutil.which("bash")


def completed(*words: str) -> list[str]:
    """What bash offers behind the words, the last of which is being typed."""
    typed = " ".join(f"'{word}'" for word in words)
    ask = f'COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _ninfer; printf "%s\\n" "${{COMPREPLY[@]}}"'
    assert BASH is not None
    done = subprocess.run([BASH, "-c", script("bash") + ask], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(BASH is None, reason="no bash on this machine")
def test_bash_completes_commands_options_and_choices() -> None:
    assert completed("ninfer", "") == list(COMMANDS)
    assert completed("ninfer", "ch") == ["check"]
    assert completed("ninfer", "check", "--un") == ["--unknown-schema-keywords"]
    assert completed("ninfer", "check", "--kind", "gr") == ["grammar"]
    assert completed("ninfer", "model", "tiny") == ["tiny-qwen3"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_name_every_command(shell: str) -> None:
    assert all(name in script(shell) for name in COMMANDS)
