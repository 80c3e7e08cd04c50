"""The host's seams, each compared with what is recorded for its version.

The patches are above this package and are never imported by name: they are found as the host finds them, through the
plugin's entry point.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from ninfer_vllm.errors import HostError


@dataclass(frozen=True, slots=True)
class Seam:
    """One replaced binding, and why it would not be replaced here."""

    target: str
    fault: str | None


def host_fault(entry: EntryPoint, version: str, root: Path) -> str | None:
    """Why the plugin behind `entry` does not support this version of the host at all."""
    return _fault_of(_installer(entry), (), version, root)


def inspect_seams(entry: EntryPoint, version: str, root: Path) -> list[Seam]:
    """Every seam of the plugin behind `entry`, verified in the host's package folder `root`; binds nothing."""
    installer = _installer(entry)
    patches = importlib.import_module(f"{_package(entry)}.registry").ALL
    return [Seam(patch.target, _fault_of(installer, (patch,), version, root)) for patch in patches]


def _fault_of(installer: Any, patches: tuple[Any, ...], version: str, root: Path) -> str | None:
    try:
        installer.verify(patches, version, root)
    except HostError as error:
        return str(error)
    return None


def _installer(entry: EntryPoint) -> Any:
    return importlib.import_module(f"{_package(entry)}.install")


def _package(entry: EntryPoint) -> str:
    return entry.module.rpartition(".")[0]
