"""How functions become machine code, and the types of what they are called with.

Compiling takes seconds, once a machine: Numba's own cache keeps the code below NUMBA_CACHE_DIR, beside the module, or
in the user's cache folder. Import this module only from modules of kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types

Function = TypeVar("Function", bound=Callable[..., Any])

I4, U4 = types.Array(types.int32, 1, "C"), types.Array(types.uint32, 1, "C")
U1, U2 = types.Array(types.uint8, 1, "C"), types.Array(types.uint16, 1, "C")
I8 = types.Array(types.int64, 1, "C")
KEPT = types.Array(types.uint32, 1, "C", readonly=True)
GRID = types.Array(types.int32, 2, "C")
TRIE = types.Tuple((I8, I4, I4, I4))
TABLES = types.Tuple((GRID, U2, I4, U1))
FOUND = types.Tuple((U4, I4, GRID, GRID, GRID))
DENSE = types.Tuple((GRID, I4, I4))
ONE = np.uint32(1)


def compiled(signature: object) -> Callable[[Function], Function]:
    """Compile a function for one signature; it runs without the interpreter's lock."""

    def compile_function(function: Function) -> Function:
        options = {"nogil": True, "error_model": "numpy"}
        try:
            return njit(signature, cache=True, **options)(function)  # type: ignore[no-any-return]
        except (RuntimeError, OSError):
            # No folder can be written: the code is compiled for this process alone.
            return njit(signature, **options)(function)  # type: ignore[no-any-return]

    return compile_function
