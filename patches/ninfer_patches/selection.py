"""Whether this process, and the processes it starts, run with the plugin selected (ENG-6)."""

from __future__ import annotations

import itertools
import os
import sys

NAME = "ninfer"
HOST_VARIABLE = "VLLM_PLUGINS"
OWN_VARIABLE = "NINFER_SELECTED"
"""Set for child processes when a command line or a configuration selected the plugin."""


def selected_by_environment() -> bool:
    """Whether the environment names the plugin."""
    return NAME in os.environ.get(HOST_VARIABLE, "").split(",") or os.environ.get(OWN_VARIABLE) == "1"


def selected_by_command_line() -> bool:
    """Whether this process's command line asks for the plugin; read before the host's parser exists."""
    words = sys.argv[1:]
    values = [after for before, after in itertools.pairwise(words) if before == "--plugin"]
    values += [word.partition("=")[2] for word in words if word.startswith("--plugin=")]
    return any(NAME in value.split(",") for value in values)


def select_children() -> None:
    """Let every process started from here select the plugin too."""
    os.environ[OWN_VARIABLE] = "1"
