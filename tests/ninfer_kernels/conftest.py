"""Kernels run in Triton's interpreter, and find rubbish in every tensor that they did not fill."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

OPERATIONS = ("masking", "argmax", "candidates", "proposals", "verification")

# Triton reads the variable when it is imported first, so these tests have a process of their own: see `make unit`.
if os.environ.get("TRITON_INTERPRET") != "1":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="package")
def kernels() -> dict[str, ModuleType]:
    """The operations' modules by name."""
    return {name: importlib.import_module(f"ninfer_kernels.{name}") for name in OPERATIONS}


@pytest.fixture(autouse=True)
def _poisoned_memory() -> Iterator[None]:
    """New tensors hold NaN, or the largest integer, until somebody writes to them."""
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    fill: Any = torch.utils.deterministic
    fill.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(before[0])
    fill.fill_uninitialized_memory = before[1]
