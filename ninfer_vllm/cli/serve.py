"""`ninfer serve`: the host's server with the plugin selected, also where the host's own script does not start."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ninfer_vllm.cli.inputs import EMBEDDED, model_of
from ninfer_vllm.errors import NInferError

PLUGIN = "ninfer"
HOST_SELECTION = "VLLM_PLUGINS"


def serve(words: Sequence[str]) -> int:
    """Serve with the options of `vllm serve`; returns when the server stops."""
    words = list(words)
    if words and not words[0].startswith("-"):
        words = [model_of(words[0]), *words[1:], *_named(words)]
    words += ["--plugin", PLUGIN]
    _admit_plugin()
    # Processes of the server read the selection from the command line that they inherit.
    sys.argv = [sys.argv[0], "serve", *words]
    from ninfer_vllm.host.command_line import run_serve

    try:
        run_serve(words)
    except (NInferError, ValueError, OSError) as error:
        print(f"ninfer serve: {error}", file=sys.stderr)
        return 1
    return 0


def _named(words: Sequence[str]) -> list[str]:
    """An embedded model is served under the name it was asked for."""
    if words[0] not in EMBEDDED:
        return []
    given = any(word.partition("=")[0] in ("--served-model-name", "--served_model_name") for word in words)
    return [] if given else ["--served-model-name", words[0]]


def _admit_plugin() -> None:
    """Where the environment lists the plugins that the host may load, ours has to be among them."""
    listed = os.environ.get(HOST_SELECTION)
    if listed is not None and PLUGIN not in listed.split(","):
        os.environ[HOST_SELECTION] = ",".join(filter(None, [listed, PLUGIN]))
