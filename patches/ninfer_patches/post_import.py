"""Run a function once a module has been imported, without importing it.

Theory of operation. A callback may import modules of its own, and those may import modules that other callbacks wait
for. Called at once, these would meet modules whose import has only begun. So while a callback runs, whatever comes due
in its thread waits for its end.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType

Callback = Callable[[ModuleType], None]
Due = deque[Callable[[], None]]


class PostImportHooks(importlib.abc.MetaPathFinder):
    """Pending callbacks by module name, on the import path only while there are any."""

    def __init__(self) -> None:
        self._pending: dict[str, list[Callback]] = {}
        self._thread = threading.local()

    def after(self, name: str, callback: Callback) -> None:
        """Call `callback(module)` now if the module is imported, else right after its code has run."""
        module = sys.modules.get(name)
        if module is not None:
            self._run(module, [callback])
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
            self._run_behind(spec.loader, callbacks)
        return spec

    def _run_behind(self, loader: importlib.abc.Loader, callbacks: list[Callback]) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._run(module, callbacks)

        setattr(loader, "exec_module", exec_module)  # noqa: B010 - a method of this one loader object

    def _run(self, module: ModuleType, callbacks: list[Callback]) -> None:
        """Call them, and then what came due meanwhile; or leave that to the call in the middle of which this comes."""
        due: Due | None = getattr(self._thread, "due", None)
        calls = [partial(callback, module) for callback in callbacks]
        if due is not None:
            due.extend(calls)
            return
        self._thread.due = due = deque(calls)
        try:
            while due:
                due.popleft()()
        finally:
            self._thread.due = None
