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


@cache
def compiled_row_kernels() -> ModuleType:
    """The module `row_kernels`, likewise."""
    from ninfer_vllm.engines.native import row_kernels

    return row_kernels


def load_kernels() -> None:
    """Load everything that is compiled."""
    compiled_kernels()
    compiled_row_kernels()


def code_folder() -> Path | None:
    """Where Numba keeps the machine code; None where no folder can be written."""
    folder = compiled_kernels().walk.stats.cache_path
    return None if folder is None else Path(folder)
