"""The kernels, loaded when first needed: importing Numba and reading machine code takes a second."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType


@cache
def compiled_kernels() -> ModuleType:
    """The module `kernels`, with its functions compiled; a second thread waits for the first."""
    from ninfer_vllm.engines.native import kernels

    return kernels


def code_folder() -> Path | None:
    """Where Numba keeps the machine code; None where no folder can be written."""
    folder = compiled_kernels().walk.stats.cache_path
    return None if folder is None else Path(folder)
