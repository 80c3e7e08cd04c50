"""The endpoints load exactly once wherever the plugin is selected, and not where they have no engine."""

from __future__ import annotations

from typing import Any

import pytest
from ninfer_patches.endpoints import create, load_endpoint_plugins

from ninfer_vllm.host.endpoints import Endpoints

pytestmark = pytest.mark.contract("API-7")


class Other:
    """An endpoint plugin of somebody else."""

    name = "other"


def names(found: list[Any]) -> list[str]:
    return [plugin.name for plugin in found]


@pytest.mark.parametrize(
    ("listed", "of_host", "tasks", "loaded"),
    [
        (None, [], ("generate",), ["ninfer"]),
        ("ninfer", [create()], ("generate",), ["ninfer"]),
        ("other", [Other()], ("generate", "embed"), ["other", "ninfer"]),
        (None, [], ("embed",), []),
        (None, [], None, []),
        ("other", [Other()], ("render",), ["other"]),
    ],
)
def test_endpoints_are_loaded_once_and_only_beside_a_generating_engine(
    monkeypatch: pytest.MonkeyPatch, listed: str | None, of_host: list[Any], tasks: Any, loaded: list[str]
) -> None:
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    if listed is not None:
        monkeypatch.setenv("VLLM_PLUGINS", listed)
    assert names(load_endpoint_plugins(lambda _: list(of_host))(tasks)) == loaded


def test_they_are_what_the_host_asks_of_an_endpoint_plugin() -> None:
    from vllm.plugins.endpoint_plugins.interface import EndpointPlugin

    assert isinstance(create(), EndpointPlugin)
    assert isinstance(create(), Endpoints)
