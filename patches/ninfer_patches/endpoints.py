"""The endpoints under /ninfer: the host's own entry point for them, and the other ways to select the plugin.

Bound in every process, needed by API servers: what the endpoints are made of is imported when they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from vllm import envs

from ninfer_patches.selection import NAME


def create() -> Any:
    """The endpoints, with the judge that the command line uses."""
    from ninfer_vllm.cli.problems import problems_of
    from ninfer_vllm.host.endpoints import Endpoints

    return Endpoints(problems_of)


def load_endpoint_plugins(original: Callable[..., Any]) -> Callable[..., Any]:
    """Load our endpoints where the plugin was selected by another way than the host's list of plugins."""

    @wraps(original)
    def load(supported_tasks: Any = None) -> Any:
        # Without a list the host loads none, and warns of ours.
        found = [] if envs.VLLM_PLUGINS is None else original(supported_tasks)
        if supported_tasks is None or any(plugin.name == NAME for plugin in found):
            return found
        ours = create()
        return found if set(ours.required_tasks).isdisjoint(supported_tasks) else [*found, ours]

    return load
