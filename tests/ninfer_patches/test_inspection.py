"""Patches bind in whichever order modules are imported, the one of the process that inspects a model class included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from ninfer_patches.post_import import PostImportHooks
from ninfer_patches.selection import OWN_VARIABLE

SCRIPT = """
import vllm.model_executor.models.registry
from vllm.plugins import load_general_plugins
load_general_plugins()
"""


@pytest.mark.contract("ENG-5")
def test_patches_bind_where_the_host_inspects_a_model_class_it_has_not_seen() -> None:
    """It does so in a process of its own, which imports little else before it loads the plugin."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, OWN_VARIABLE: "1", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_what_comes_due_within_a_callback_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hooked_outer", "hooked_inner"):
        (tmp_path / f"{name}.py").write_text("")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    hooks, seen = PostImportHooks(), []

    def outer(module: ModuleType) -> None:
        import hooked_inner

        seen.append((module.__name__, hooked_inner.__name__))

    hooks.after("hooked_outer", outer)
    hooks.after("hooked_inner", lambda module: seen.append(module.__name__))
    import hooked_outer  # noqa: F401

    assert seen == [("hooked_outer", "hooked_inner"), "hooked_inner"]
