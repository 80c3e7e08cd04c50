"""From selected to bound: once a process, all patches or none."""

from __future__ import annotations

from functools import cache

import vllm

from ninfer_patches.install import install
from ninfer_patches.registry import OFFER, SELECTED
from ninfer_patches.selection import select_children, selected_by_command_line, selected_by_environment
from ninfer_patches.versions import SUPPORTED, minor_of


@cache
def offer() -> None:
    """Bind what makes the plugin selectable; nothing at all on an unknown host, which is none of our business yet."""
    if minor_of(vllm.__version__) in SUPPORTED:
        install(OFFER, vllm)


def activate_if_selected() -> None:
    """Activate where the environment or the command line asks for the plugin."""
    if selected_by_environment() or selected_by_command_line():
        activate()


@cache
def activate() -> None:
    """Verify and bind every patch, here and in the processes started from here.

    Errors: UnsupportedHost, PatchDrift.
    """
    install(SELECTED, vllm)
    select_children()
