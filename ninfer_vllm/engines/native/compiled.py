"""The kernels, loaded when first needed: importing Numba and reading machine code takes a second."""

from __future__ import annotations

from functools import cache
from types import ModuleType


@cache
def compiled_kernels() -> ModuleType:
    """The module `kernels`, with its functions compiled; a second thread waits for the first."""
    from ninfer_vllm.engines.native import kernels

    return kernels
