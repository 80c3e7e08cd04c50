"""Verify every seam, then bind every patch; or stop and change nothing (ENG-5)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from ninfer_patches.patch import Patch, split
from ninfer_patches.post_import import PostImportHooks
from ninfer_patches.sources import DefinitionMissing, fingerprint
from ninfer_patches.versions import SUPPORTED, minor_of, recorded, supported_names
from ninfer_vllm.errors import PatchDrift, UnsupportedHost

_hooks = PostImportHooks()


def install(patches: Iterable[Patch], host: ModuleType) -> None:
    """Verify all `patches` against the installed host package, then bind them as their modules are imported.

    Errors: UnsupportedHost, PatchDrift; nothing is bound then.
    """
    wanted = tuple(patches)
    verify(wanted, host.__version__, Path(next(iter(host.__path__))))
    for patch in wanted:
        module, _ = split(patch.target)
        _hooks.after(module, _binder(patch))


def verify(patches: Iterable[Patch], version: str, root: Path) -> None:
    """Compare every patch's definition with what is recorded for this host version.

    Errors: UnsupportedHost, PatchDrift.
    """
    minor = minor_of(version)
    if minor not in SUPPORTED:
        raise UnsupportedHost(version, supported_names())
    known = recorded(minor)
    for patch in patches:
        _verify_one(patch.definition, known, root)


def _verify_one(definition: str, known: dict[str, Any], root: Path) -> None:
    want = known[definition]
    try:
        have = fingerprint(definition, root)
    except DefinitionMissing:
        raise PatchDrift(definition, want.digest, "nothing", supported_names()) from None
    if have != want:
        raise PatchDrift(definition, want.digest, have.digest, supported_names())


def _binder(patch: Patch) -> Callable[[ModuleType], None]:
    def bind(module: ModuleType) -> None:
        build_module, build_name = split(patch.replacement)
        build = getattr(importlib.import_module(build_module), build_name)
        _, name = split(patch.target)
        *owners, attribute = name.split(".")
        owner: Any = module
        for part in owners:
            owner = getattr(owner, part)
        _rebind(owner, attribute, build)

    return bind


def _rebind(owner: Any, attribute: str, build: Callable[[Any], Any]) -> None:
    """Replace an attribute, keeping its kind: plain, static method or class method."""
    original = vars(owner)[attribute]
    if isinstance(original, staticmethod | classmethod):
        setattr(owner, attribute, type(original)(build(original.__func__)))
    else:
        setattr(owner, attribute, build(original))
