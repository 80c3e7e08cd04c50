"""Run a function once a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

Callback = Callable[[ModuleType], None]


class PostImportHooks(importlib.abc.MetaPathFinder):
    """Pending callbacks by module name, on the import path only while there are any."""

    def __init__(self) -> None:
        self._pending: dict[str, list[Callback]] = {}

    def after(self, name: str, callback: Callback) -> None:
        """Call `callback(module)` now if the module is imported, else right after its code has run."""
        module = sys.modules.get(name)
        if module is not None:
            callback(module)
            return
        if not self._pending:
            sys.meta_path.insert(0, self)
        self._pending.setdefault(name, []).append(callback)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The regular spec of a pending module, with the callbacks behind its loader."""
        callbacks = self._pending.pop(fullname, None)
        if callbacks is None:
            return None
        if not self._pending:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _run_after(spec.loader, callbacks)
        return spec


def _run_after(loader: importlib.abc.Loader, callbacks: list[Callback]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        for callback in callbacks:
            callback(module)

    setattr(loader, "exec_module", exec_module)  # noqa: B010 - a method of this one loader object
